/** An installed program that is a shell script, a publisher with releases of it, and `tollgate update` in this process. */
import { chmodSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Command } from 'commander'
import { toTarGz } from '../../.ci/release/archive.ts'
import { toSignature } from '../../.ci/release/sign.ts'
import type { Context } from '../../src/cli/io.ts'
import { PLAIN } from '../../src/cli/terminal.ts'
import { addUpdate, type Self } from '../../src/cli/update/update.ts'
import { makeKey } from './keys.ts'

export const key = makeKey()

/** Takes some time to read, and can't be compressed. */
const PADDING = Buffer.from(crypto.getRandomValues(new Uint8Array(60_000))).toString('hex')

/** A program that only tells its version. */
export const toProgram = (version: string) => `#!/bin/sh\necho '{\n  "version": "${version}"\n}'\nexit 0\n${PADDING}\n`

export const toArchive = (program: string, name = 'tollgate') =>
  toTarGz(
    [
      { name, content: program, mode: 0o755 },
      { name: 'LICENSES.txt', content: 'MIT' },
    ],
    0,
  )

/** The index, its signature, and an archive, by name. */
export function toRelease(version: string, changes: object = {}, archive = toArchive(toProgram(version))) {
  const sha256 = new Bun.CryptoHasher('sha256').update(archive).digest('hex')
  const files = { 'linux-x64': { name: 'new.tar.gz', bytes: archive.length, sha256 } }
  const index = JSON.stringify({ version, commit: 'abc', schema: '0002_two', files, ...changes })
  const signature = toSignature(Buffer.from(index), `tollgate ${version} latest.json`, key)
  return { 'latest.json': index, 'latest.json.minisig': signature, 'new.tar.gz': archive }
}

export function install(folder: string): string {
  const program = join(folder, 'tollgate')
  writeFileSync(program, toProgram('1.0.0'))
  chmodSync(program, 0o751)
  return program
}

/** Rejects with the command's error. Returns what it printed. */
export async function update(executable: string | null, words: string[], changes: Partial<Self> = {}): Promise<string> {
  let out = ''
  const note = (text: string) => {
    out += text
  }
  const io: Context = {
    ...{ stdout: note, stderr: note, stdoutLeft: async () => true, stdin: async () => null, ask: async () => null },
    ...{ run: async () => null, isTerminal: () => false, columns: () => 80, giveWay: async () => {} },
    ...{ environment: {}, nowMs: Date.now, cwd: '/', dataFolder: '/', json: words.includes('--json'), paint: PLAIN },
  }
  const command = new Command('update').exitOverride()
  addUpdate(command, io, {
    executable,
    build: { version: '1.0.0', commit: 'abc', schema: '0001_one', target: 'linux-x64', bun: '1' },
    publisher: { url: null, keys: [key.publicKey] },
    ...changes,
  })
  await command.parseAsync(
    words.filter((word) => word !== '--json'),
    { from: 'user' },
  )
  return out
}

// As a program: updates the first argument from the second one.
if (import.meta.main) {
  const [program = '', from = '', publicKey = ''] = process.argv.slice(2)
  await update(program, ['--from', from, '--key', publicKey])
}
