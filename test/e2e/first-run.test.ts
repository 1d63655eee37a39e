/** The binary as a new user meets it: the first start, the second, and keys that other processes create and revoke. */
import { Database } from 'bun:sqlite'
import { expect, test } from 'bun:test'
import { statSync } from 'node:fs'
import { join } from 'node:path'
import { applyJournal, BINARY, createWorkplace, runBinary } from '../support/binary.ts'
import { forEachTest } from '../support/lifetime.ts'
import { until } from '../support/until.ts'

const place = forEachTest(createWorkplace)

const statusFor = async (baseUrl: string, key: string) =>
  (await fetch(`${baseUrl}/models`, { headers: { authorization: `Bearer ${key}` } })).status

test('the first start sets everything up, and the curl line that it prints streams a response', async () => {
  const server = await place.serve(['--first-key'])
  expect(server.stdout()).toContain(`\n${server.key}\n`)
  const line = server.stdout().match(/^curl .+$/m)?.[0] ?? ''
  expect(line).toContain(String(server.key))
  if (Bun.which('curl') !== null) {
    const curl = Bun.spawn(['sh', '-c', line], { stdout: 'pipe', stderr: 'ignore' })
    expect(await curl.stdout.text()).toEndWith('data: [DONE]\n\n')
  }
  const run = (words: RegExp) => {
    const command = server.stdout().match(words)?.[0] ?? ''
    expect(command).not.toBe('')
    return Bun.spawnSync(['sh', '-c', command], { cwd: place.folder, stdin: 'ignore' }).stdout.toString()
  }
  expect(run(/^.+ ask Hello .+$/m)).toEndWith('You wrote: Hello\n')
  expect(server.stderr()).not.toContain(String(server.key))
  expect(statSync(join(place.folder, 'data')).mode & 0o777).toBe(0o700)
})

test('a second start keeps the keys and prints none', async () => {
  const first = await place.serve(['--first-key'])
  first.signal('SIGTERM')
  expect(await first.exited).toBe(0)
  const second = await place.serve(['--first-key'])
  expect(second.key).toBeNull()
  expect(second.stdout()).not.toContain('sk-tg-')
  expect(second.stdout()).toContain('\n  keys       1 (create another: ')
  expect(second.stdout()).not.toContain('Create an API key')
  expect(await statusFor(second.baseUrl, String(first.key))).toBe(200)
})

test('without a terminal, no key is printed unless requested', async () => {
  const server = await place.serve()
  expect(server.key).toBeNull()
  const command = /^Create an API key: (.+)$/m.exec(server.stdout())?.[1] ?? ''
  const made = Bun.spawnSync(['sh', '-c', command], { cwd: place.folder })
  expect(made.stdout.toString()).toMatch(/^sk-tg-\w{38}\n$/)
})

test('a missing credential is reported once', async () => {
  const shipped = await Bun.file(join(import.meta.dir, '../../catalog.yaml')).text()
  const more =
    'upstreams:\n  more: { dialect: openai, base_url: "http://127.0.0.1:1/v1", api_key: "$' + '{NOT_THERE}" }'
  await place.write('mine.yaml', shipped.replace('\nupstreams:', `\n${more}`))
  const server = await place.serve(['--catalog', 'mine.yaml'])
  await until('the line of the start', () => server.stderr().includes('server_started'))
  const told = server
    .stderr()
    .split('\n')
    .filter((line) => line.includes('NOT_THERE'))
  expect(told).toEqual([expect.stringContaining('"event":"upstream_not_ready"')])
})

test('keys that another process creates and revokes are effective on the running server', async () => {
  const { baseUrl } = await place.serve()
  const made = await place.run('keys', 'create', '--name', 'ann', '--json')
  expect(made.code).toBe(0)
  const { id, key }: { id: string; key: string } = JSON.parse(made.stdout)
  const turns = async (status: number) => {
    const end = performance.now() + 5_000
    while ((await statusFor(baseUrl, key)) !== status) {
      if (performance.now() > end) throw new Error(`the key never came to answer ${status}`)
      await Bun.sleep(5)
    }
  }
  await turns(200)
  expect((await place.run('keys', 'revoke', id)).code).toBe(0)
  await turns(401)
})

test("the demo's responses are in the ledger, with tokens, at no cost", async () => {
  const { baseUrl, key } = await place.serve(['--first-key'])
  const body = { model: 'tollgate/demo', messages: [{ role: 'user', content: 'Hello' }] }
  const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' }
  const answer = await fetch(`${baseUrl}/chat/completions`, { method: 'POST', headers, body: JSON.stringify(body) })
  const { usage } = JSON.parse(await answer.text())
  await applyJournal(join(place.folder, 'data'))
  const database = new Database(join(place.folder, 'data', 'tollgate.db'), { readonly: true })
  const row = database.query('SELECT status, prompt_tokens, completion_tokens, cost_nano_usd FROM requests').get()
  database.close()
  const { prompt_tokens, completion_tokens } = usage
  expect(row).toEqual({ status: 'ok', prompt_tokens, completion_tokens, cost_nano_usd: 0 })
})

test('with --json the start is one document', async () => {
  const { folder } = place
  const child = Bun.spawn([BINARY, 'serve', '--port', '0', '--json'], {
    cwd: folder,
    env: { PATH: '' },
    stdout: 'pipe',
    stderr: 'ignore',
  })
  const { value } = await child.stdout.getReader().read()
  const started: { base_url: string; key: null } = JSON.parse(new TextDecoder().decode(value))
  expect(started.base_url).toMatch(/^http:\/\/127\.0\.0\.1:\d+\/v1$/)
  expect(started.key).toBeNull()
  expect((await fetch(new URL('/readyz', started.base_url))).status).toBe(200)
  child.kill('SIGTERM')
  expect(await child.exited).toBe(0)
})

test('version prints the version, and an unknown command suggests one', async () => {
  expect((await runBinary(['version'])).stdout).toMatch(/^\d+\.\d+\.\d+\n$/)
  const wrong = await runBinary(['serv'])
  expect(wrong.code).toBe(2)
  expect(wrong.stderr).toContain('tollgate --help')
})
