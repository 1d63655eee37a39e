/**
 * A llama-server as a program: accepts only real options, refuses invalid models, reads its key from the environment,
 * and then behaves as [a model server](model-server.ts).
 */
import { chmodSync, mkdirSync, openSync, readSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { serve } from './model-server.ts'

/** A shell line that runs the program. */
export const RUN_LLAMA_SERVER = `exec '${process.execPath}' '${join(import.meta.dir, 'llama-server.ts')}' "$@"`

/** Installs a program of that name into a folder for the PATH. */
export function installLlamaServer(folder: string): string {
  const path = join(folder, 'llama-server')
  mkdirSync(folder, { recursive: true })
  writeFileSync(path, `#!/bin/sh\n${RUN_LLAMA_SERVER}\n`)
  chmodSync(path, 0o755)
  return path
}

const WITH_VALUE = ['-m', '--mmproj', '--host', '--port', '--alias', '-np', '-c', '-b', '-ub', '-t', '-lv', '--device']
const ALONE = ['--jinja', '--offline', '--no-ui', '--metrics', '--embeddings', '--no-mmproj-offload']

if (import.meta.main) start(process.argv.slice(2))

function start(words: string[]): void {
  if (words.includes('--version')) {
    console.error('version: 9999 (0000000)')
    process.exit(0)
  }
  for (let n = 0; n < words.length; n++) {
    const word = words[n] ?? ''
    if (WITH_VALUE.includes(word)) n++
    else if (!ALONE.includes(word)) fail(`error: invalid argument: ${word}`)
  }
  const head = Buffer.alloc(4)
  readSync(openSync(words[words.indexOf('-m') + 1] ?? '', 'r'), head, 0, 4, 0)
  if (head.toString() !== 'GGUF') fail('error: failed to load model')
  serve([...words, '--api-key', process.env.LLAMA_API_KEY ?? ''])
}

function fail(why: string): never {
  console.error(why)
  process.exit(1)
}
