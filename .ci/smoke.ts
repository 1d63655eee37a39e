/**
 * The built binary as a user meets it, in an empty folder: first start, health, a whole and a streamed answer, the
 * commands beside a running server, and a stop by SIGTERM. Run by `.ci/run`; the first wrong answer ends it with 1.
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'

const binary = resolve(process.argv[2] ?? join(import.meta.dir, '../dist/tollgate'))
const folder = mkdtempSync(join(tmpdir(), 'tollgate-smoke-'))
const data = join(folder, 'data')
const options = { cwd: folder, env: { PATH: process.env.PATH ?? '' }, stderr: 'pipe' } as const

function check(what: string, holds: boolean, found: unknown): void {
  if (!holds) throw new Error(`${what}: found ${JSON.stringify(found)}`)
  console.log(`ok  ${what}`)
}

async function run(...args: string[]) {
  const child = Bun.spawn([binary, ...args, '--data', data], { ...options, timeout: 20_000 })
  const [stdout, stderr] = await Promise.all([child.stdout.text(), child.stderr.text()])
  return { code: await child.exited, stdout, stderr }
}

const server = Bun.spawn([binary, 'serve', '--port', '0', '--first-key', '--json', '--data', data], options)
const log = server.stderr.text()
// A start that hangs, or an answer that does, must not hang the run.
const limit = setTimeout(() => server.kill('SIGKILL'), 60_000)

/** The one JSON document that the start prints. */
async function readStart(): Promise<{ base_url: string; key: string }> {
  let text = ''
  for await (const piece of server.stdout) {
    text += new TextDecoder().decode(piece)
    if (text.endsWith('}\n')) return JSON.parse(text)
  }
  throw new Error(`the server ended with ${await server.exited}: ${await log}`)
}

try {
  const { base_url: base, key } = await readStart()
  check('serve prints its address and a first key', /^sk-tg-\w{38}$/.test(key), base)

  const health = await (await fetch(new URL('/healthz', base))).json()
  check('/healthz says ok', health.status === 'ok', health)
  const ready = await (await fetch(new URL('/readyz', base))).json()
  check('/readyz says ok', ready.status === 'ok', ready)

  const ask = (authorization: string, stream: boolean) =>
    fetch(`${base}/chat/completions`, {
      method: 'POST',
      headers: { authorization, 'content-type': 'application/json' },
      body: JSON.stringify({ model: 'tollgate/demo', stream, messages: [{ role: 'user', content: 'Hello' }] }),
    })
  const refused = await ask('Bearer sk-tg-wrong', false)
  check('a wrong key gets 401', refused.status === 401, refused.status)
  const whole = await (await ask(`Bearer ${key}`, false)).json()
  check(
    'a whole answer has text and usage',
    whole.choices?.[0]?.message?.content && whole.usage?.total_tokens > 0,
    whole,
  )
  const frames = await (await ask(`Bearer ${key}`, true)).text()
  check('a streamed answer ends in [DONE]', frames.endsWith('data: [DONE]\n\n') && frames.length > 500, frames)

  const keys = await run('keys', 'list', '--json')
  check('keys list shows one key', keys.code === 0 && JSON.parse(keys.stdout).keys.length === 1, keys)
  const audit = await run('ledger', 'verify')
  check(
    'audit finds ledger and rollup in agreement on 2 requests',
    audit.code === 0 && /\b2 settled/.test(audit.stdout),
    audit,
  )

  server.kill('SIGTERM')
  const code = await server.exited
  check('SIGTERM ends the server with 0', code === 0, { code, log: await log })
  const after = await run('ledger', 'verify')
  check('audit agrees after the stop', after.code === 0, after)
} catch (error) {
  console.error(`not ok  ${error instanceof Error ? error.message : error}`)
  process.exitCode = 1
} finally {
  clearTimeout(limit)
  server.kill('SIGKILL')
  await server.exited
  rmSync(folder, { recursive: true, force: true })
}
