/**
 * From argv to an exit code. `serve` first replaces this process by itself with Bun's limit on concurrent fetches
 * raised, which works from the real environment alone (platform-notes 2.1); everything else is loaded after that.
 */

import { execPath } from 'node:process'

/** Beyond the 4,096 requests that may be in flight, with room for probes. */
const MAX_FETCHES = '16384'

const args = process.argv.slice(2)
if (args.includes('serve') && !process.env.BUN_CONFIG_MAX_HTTP_REQUESTS && process.execve) {
  const script = Bun.main.startsWith('/$bunfs/') ? [] : [Bun.main]
  process.execve(execPath, [execPath, ...script, ...args], {
    ...process.env,
    BUN_CONFIG_MAX_HTTP_REQUESTS: MAX_FETCHES,
  })
}

const { runProgram } = await import('./cli/program.ts')
const code = await runProgram(args, {
  stdout: (text) => void process.stdout.write(text),
  stderr: (text) => void process.stderr.write(text),
  environment: process.env,
  nowMs: Date.now,
  cwd: process.cwd(),
})
process.exit(code)
