/** Pinned versions of the agents: hundreds of megabytes. */
import { join } from 'node:path'
import { installed } from '../npm.ts'

const PACKAGES = { claude: '@anthropic-ai/claude-code@2.1.197', codex: '@openai/codex@0.169.0' } as const
export type RealAgent = keyof typeof PACKAGES
export const AGENTS: readonly RealAgent[] = ['claude', 'codex']

/** The folder with its program; null if unavailable. */
export async function installAgent(agent: RealAgent): Promise<string | null> {
  const modules = await installed([PACKAGES[agent]], agent)
  return modules && join(modules, '.bin')
}
