/** Bun's executables, which `bun build --compile` extends: packages of npm, refused unless they have the pinned hashes. */
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import pinned from './runtimes.json'

export const BUN_VERSION = pinned.version

export type Target = keyof typeof pinned.packages

export const TARGETS = Object.keys(pinned.packages).filter(isTarget)

export function isTarget(name: string): name is Target {
  return Object.hasOwn(pinned.packages, name)
}

const CACHE = join(import.meta.dir, '../../node_modules/.cache/bun-runtimes')

/** Returns the path of Bun's executable for the target. Downloads once. */
export async function fetchRuntime(target: Target, cache = CACHE): Promise<string> {
  const { name, integrity } = pinned.packages[target]
  const archive = join(cache, `${target}-${BUN_VERSION}.tgz`)
  if (!existsSync(archive)) await pack(name, archive, cache)
  requireIntegrity(readFileSync(archive), integrity, name)
  const folder = join(cache, target)
  rmSync(folder, { recursive: true, force: true })
  mkdirSync(folder, { recursive: true })
  const program = `package/bin/bun${target.startsWith('windows') ? '.exe' : ''}`
  await must(['tar', '-xzf', archive, '-C', folder, program])
  return join(folder, program)
}

/** @param integrity as in npm's `dist.integrity`. */
export function requireIntegrity(bytes: Uint8Array, integrity: string, name: string): void {
  const found = `sha512-${createHash('sha512').update(bytes).digest('base64')}`
  if (found !== integrity) throw new Error(`${name} is not the package that runtimes.json names: it has ${found}.`)
}

/** From npm's configured registry. */
async function pack(name: string, archive: string, cache: string): Promise<void> {
  const folder = `${archive}.part`
  rmSync(folder, { recursive: true, force: true })
  mkdirSync(folder, { recursive: true })
  await must(['npm', 'pack', `${name}@${BUN_VERSION}`, '--pack-destination', folder, '--silent'], cache)
  const [file = ''] = readdirSync(folder)
  renameSync(join(folder, file), archive)
  rmSync(folder, { recursive: true })
}

/** Runs a program and returns its output. */
export async function must(command: string[], cwd?: string): Promise<string> {
  const child = Bun.spawn(command, { ...(cwd && { cwd }), stdin: 'ignore', stdout: 'pipe', stderr: 'pipe' })
  const [stdout, stderr] = await Promise.all([child.stdout.text(), child.stderr.text()])
  if ((await child.exited) !== 0)
    throw new Error(`${command.slice(0, 3).join(' ')} failed: ${(stderr || stdout).slice(-500)}`)
  return stdout.trim()
}
