/** Run while the code is built, as a macro of Bun's: what it returns stands in the code then. */
import { join } from 'node:path'
import type { Packed } from './bundle.ts'

/** A bundler that runs inside of another waits for ever, so another process does it. */
export function bundled(): Record<string, Packed> {
  const program = [process.execPath, join(import.meta.dir, 'bundle.ts')]
  const { stdout, success } = Bun.spawnSync(program, { stderr: 'inherit' })
  if (!success) throw new Error('The dashboard does not bundle.')
  return JSON.parse(stdout.toString())
}
