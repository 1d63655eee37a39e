/**
 * npm packages of a few long tests, installed on demand below `node_modules/.cache/`. Without npm or network those
 * tests are skipped, with a message.
 */
import { existsSync, mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

const CACHE = join(import.meta.dir, '../../node_modules/.cache/long-tests')

/**
 * @param packages with their versions; the first names the folder.
 * @param start one of their programs, which must start here.
 * @returns their `node_modules`; null if unavailable, with a message on standard error.
 */
export async function installed(packages: readonly [string, ...string[]], start?: string): Promise<string | null> {
  const folder = join(CACHE, packages[0].replace(/^@/, '').replaceAll(/[/@]/g, '-'))
  const modules = join(folder, 'node_modules')
  const done = join(folder, 'installed')
  try {
    mkdirSync(folder, { recursive: true })
    if (!existsSync(done)) {
      const quiet = ['--no-audit', '--no-fund', '--no-update-notifier', '--fetch-retries=1']
      await run(['npm', 'install', '--prefix', folder, ...quiet, ...packages], folder)
      writeFileSync(done, '')
    }
    if (start !== undefined) await run([join(modules, '.bin', start), '--version'], folder)
    return modules
  } catch (error) {
    console.warn(`Tests with ${packages[0]} are left out: ${error instanceof Error ? error.message : error}`)
    return null
  }
}

async function run(command: string[], cwd: string): Promise<void> {
  const child = Bun.spawn(command, { cwd, stdin: 'ignore', stdout: 'ignore', stderr: 'pipe', timeout: 300_000 })
  const stderr = await child.stderr.text()
  if ((await child.exited) !== 0) throw new Error(`${command[0]} ended with ${child.exitCode}: ${stderr.slice(-500)}`)
}
