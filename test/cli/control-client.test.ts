/** Commands with a server that is slow, of another version, or unreachable. */
import { afterEach, beforeEach, expect, test } from 'bun:test'
import { findServer } from '../../src/cli/control-client.ts'
import { socketPath } from '../../src/server/protocol.ts'
import { takeLock } from '../../src/store/data-folder.ts'
import { pretendServer, toStatus } from '../support/status.ts'
import { type Bench, createBench } from './run.ts'

let bench: Bench
let folder: string
let end: () => Promise<void>
beforeEach(() => {
  bench = createBench()
  folder = bench.folder
  end = async () => {}
})
afterEach(async () => {
  await end()
  bench.close()
})

/** A server with this one response to every request. */
function serve(answer: (path: string) => Response | Promise<Response>): void {
  const unlock = takeLock(folder)
  const server = Bun.serve({ unix: socketPath(folder), fetch: ({ url }) => answer(new URL(url).pathname) })
  end = async () => {
    end = async () => {}
    await server.stop(true)
    unlock()
  }
}
const serveJson = (answer: unknown) => serve(() => Response.json(answer))

test('a status is accepted with additional fields of another version', async () => {
  serveJson({ ...toStatus(), more: 1 })
  expect(await findServer(folder)).toMatchObject({ kind: 'server', status: toStatus() })
})

test.each<[what: string, body: unknown]>([
  ['that lacks a field', { ...toStatus(), in_flight: undefined }],
  ['that is no object', 'ok'],
])('a status %s is not guessed at: the server is to be restarted', async (_, body) => {
  serveJson(body)
  expect(await findServer(folder)).toMatchObject({ kind: 'silent', why: expect.stringContaining('restart the server') })
})

test('a change waits for a starting server, which applies it', async () => {
  const unlock = takeLock(folder)
  const running = bench.run('admin', 'token', 'create', 'ci')
  await Bun.sleep(100)
  unlock()
  end = pretendServer(folder, toStatus())
  expect(await running).toMatchObject({ code: 0, stdout: expect.stringMatching(/^sk-tgadm-/) })
})

test('with a server of another version, changes are refused with both versions, and reading works', async () => {
  await bench.run('admin', 'token', 'create', 'before')
  end = pretendServer(folder, toStatus({ version: '9.9.9' }))
  const refused = await bench.run('admin', 'token', 'create', 'ci')
  expect({ code: refused.code, stdout: refused.stdout }).toEqual({ code: 1, stdout: '' })
  expect(refused.stderr).toMatch(/^error: The server is version 9\.9\.9, this command is \d\S+\. No changes made\./)
  const { code, stdout, stderr } = await bench.run('admin', 'token', 'list')
  expect([code, stdout]).toEqual([0, expect.stringContaining('before')])
  expect(stdout).not.toContain('ci')
  expect(stderr).toMatch(/^note: The server is version 9\.9\.9, this command is /)
})

test.each([
  'upstreams edit openai --disable',
  'upstreams remove openai',
  'catalog apply',
  'catalog revert 1',
  'models remove local/gemma',
])('%s writes into no database beside a server of another version', async (words) => {
  end = pretendServer(folder, toStatus({ version: '9.9.9' }))
  const { code, stderr } = await bench.run(...words.split(' '))
  expect([code, stderr]).toEqual([
    1,
    expect.stringMatching(/error: The server is version 9\.9\.9, .*No changes made\./),
  ])
})

test('if the server has no admin API on its socket, read-only commands use the database', async () => {
  await bench.run('admin', 'token', 'create', 'before')
  const unknown = { error: { kind: 'unknown_path', message: 'Invalid URL' } }
  const old = toStatus({ version: '0.0.9' })
  serve((path) => (path === '/status' ? Response.json(old) : Response.json(unknown, { status: 404 })))
  const { code, stdout } = await bench.run('admin', 'token', 'list')
  expect([code, stdout]).toEqual([0, expect.stringContaining('before')])
})

test('a plan runs in this process if the server has another version, which might apply it', async () => {
  await bench.run('catalog', 'apply')
  const asked: string[] = []
  const other = toStatus({ version: '9.9.9' })
  serve((path) => {
    asked.push(path)
    return Response.json(path === '/status' ? other : {})
  })
  const { code, stdout } = await bench.run('catalog', 'plan')
  expect([code, stdout]).toEqual([0, expect.stringContaining(': no changes.')])
  expect(asked).toEqual(['/status'])
})

test.each([
  'keys show',
  'keys revoke',
  'upstreams edit --disable',
  'upstreams start',
  'models remove',
  'requests show',
])('%s asks for no other path where what is named would be left out of its own', async (words) => {
  end = pretendServer(folder, toStatus())
  for (const which of ['', '.', '..']) {
    const { code, stderr } = await bench.run(...words.split(' '), which)
    expect([code, stderr]).toEqual([2, `error: '${which}' can't be a name or an ID.\n`])
  }
})

test("a change is refused if the server can't be reached, and nothing changes", async () => {
  serveJson('ok')
  const { code, stderr } = await bench.run('admin', 'token', 'create', 'ci')
  expect([code, stderr]).toEqual([1, expect.stringMatching(/^error: Can't reach the server: .*No changes made\.\n$/)])
  expect((await bench.run('admin', 'token', 'list', '--json')).stdout).toBe('{\n  "tokens": []\n}\n')
})
