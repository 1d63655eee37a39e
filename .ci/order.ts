/**
 * `bun run order`: records in `start.order` which functions a start and one response use. The build places their bytecode
 * together, so that a server reads less of its executable. Functions are known by their syntax: record again before a release.
 */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

const binary = join(import.meta.dir, '../dist/tollgate')
const folder = mkdtempSync(join(tmpdir(), 'tollgate-order-'))
const recorded = join(folder, 'order')

/** Starts a server, sends one request, and stops it. Returns the key. */
async function serve(known: string | null, environment: Record<string, string>): Promise<string> {
  const server = Bun.spawn([binary, 'serve', '--port', '0', '--json', '--first-key', '--data', join(folder, 'data')], {
    ...{ cwd: folder, env: { PATH: process.env.PATH ?? '', ...environment }, stderr: 'ignore', timeout: 20_000 },
  })
  let text = ''
  for await (const piece of server.stdout) {
    text += new TextDecoder().decode(piece)
    if (text.endsWith('}\n')) break
  }
  const { base_url: url, key }: { base_url: string; key: string | null } = JSON.parse(text)
  const token = known ?? key ?? ''
  const { status } = await fetch(`${url}/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
    body: JSON.stringify({ model: 'tollgate/demo', messages: [{ role: 'user', content: 'Hello' }] }),
  })
  server.kill('SIGTERM')
  if ((await server.exited) !== 0 || status !== 200) throw new Error(`The server failed: ${status}`)
  return token
}

try {
  const key = await serve(null, {})
  // Most starts find a folder.
  await serve(key, { BUN_BYTECODE_ORDER_OUT: recorded })
  // Without strings (S), which are two fifths of it and save nothing.
  writeFileSync(join(import.meta.dir, 'start.order'), readFileSync(recorded, 'utf8').replaceAll(/^S .*\n/gm, ''))
} finally {
  rmSync(folder, { recursive: true, force: true })
}
