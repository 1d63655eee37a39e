/**
 * Real coding agents from npm, in a folder of their own: installed when a test first asks for them, since they are hundreds of
 * megabytes that only these tests need. Where npm, the platform or the network refuses, the tests are left out, with a word about it.
 */
import { existsSync, mkdirSync } from 'node:fs'
import { join } from 'node:path'

/** What is installed; another version is another folder. */
const PACKAGES = { claude: '@anthropic-ai/claude-code@2.1.197', codex: '@openai/codex@0.169.0' } as const
export type RealAgent = keyof typeof PACKAGES
export const AGENTS: readonly RealAgent[] = ['claude', 'codex']

const CACHE = join(import.meta.dir, '../../../node_modules/.cache/agents')

/** Resolves to the folder with its program in it; null where it cannot be had here, which is said on standard error. */
export async function installAgent(agent: RealAgent): Promise<string | null> {
  const folder = join(CACHE, PACKAGES[agent].replace(/^@/, '').replaceAll(/[/@]/g, '-'))
  const bin = join(folder, 'node_modules/.bin')
  try {
    if (!existsSync(join(bin, agent))) await install(PACKAGES[agent], folder)
    // What a platform has no build of is noticed when it starts.
    await run([join(bin, agent), '--version'], folder)
    return bin
  } catch (error) {
    console.warn(`Tests with ${PACKAGES[agent]} are left out: ${error instanceof Error ? error.message : error}`)
    return null
  }
}

async function install(name: string, folder: string): Promise<void> {
  mkdirSync(folder, { recursive: true })
  await run(
    [
      'npm',
      'install',
      '--prefix',
      folder,
      '--no-audit',
      '--no-fund',
      '--no-update-notifier',
      '--fetch-retries=1',
      name,
    ],
    folder,
  )
}

async function run(command: string[], cwd: string): Promise<void> {
  const child = Bun.spawn(command, { cwd, stdin: 'ignore', stdout: 'ignore', stderr: 'pipe', timeout: 300_000 })
  const stderr = await child.stderr.text()
  if ((await child.exited) !== 0) throw new Error(`${command[0]} ended with ${child.exitCode}: ${stderr.slice(-500)}`)
}
