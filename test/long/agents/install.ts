/** The agents themselves, of these versions: hundreds of megabytes. */
import { join } from 'node:path'
import { installed } from '../npm.ts'

const PACKAGES = { claude: '@anthropic-ai/claude-code@2.1.197', codex: '@openai/codex@0.169.0' } as const
export type RealAgent = keyof typeof PACKAGES
export const AGENTS: readonly RealAgent[] = ['claude', 'codex']

/** Resolves to the folder with its program in it; null where it cannot be had here. */
export async function installAgent(agent: RealAgent): Promise<string | null> {
  const modules = await installed([PACKAGES[agent]], agent)
  return modules && join(modules, '.bin')
}
