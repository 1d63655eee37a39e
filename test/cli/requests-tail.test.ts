/**
 * `requests tail` next to a running server: each request as it finishes, and a message at the end, whatever its cause.
 */
import { afterEach, beforeEach, expect, test } from 'bun:test'
import { type Gateway, startGateway } from '../support/gateway.ts'
import { errorAnswer, wholeAnswer } from '../support/upstream-answers.ts'
import { type Bench, createBench } from './run.ts'

let gateway: Gateway
let bench: Bench
/** The command's output so far. */
let printed: string
beforeEach(async () => {
  gateway = await startGateway({ script: wholeAnswer({ tokens: ['hi'] }) })
  bench = createBench()
  bench.environment = { TOLLGATE_DATA: gateway.app.dataFolder }
  printed = ''
  bench.onStdout = (text) => {
    printed += text
  }
})
afterEach(async () => {
  await gateway.stop().catch(() => {})
  bench.close()
})

/** Sends requests until the command, which takes a moment to begin, has shown one. */
async function askUntilTold(body: Record<string, unknown> = {}): Promise<void> {
  while (printed === '') {
    await (await gateway.chat(body)).text()
    await Bun.sleep(20)
  }
}

test('a line is printed per request, and a message says that the server has stopped', async () => {
  const tail = bench.run('requests', 'tail', '--status', 'ok')
  await askUntilTold({ user: 'ada' })
  const [row] = gateway.app.rows()
  await gateway.stop()
  const { code, stdout, stderr } = await tail
  expect({ code, stderr }).toEqual({
    code: 0,
    stderr: 'Showing requests as they finish. Press Ctrl-C to stop.\nThe server has stopped.\n',
  })
  expect(stdout).toMatch(/^12:00:00 {2}[0-9a-f]{8} {2}test {10}acme\/large {12}ok {7,}\d+ ms/)
  expect(row?.status).toBe('ok')
})

test('--json prints the same as requests list --json, one object per line', async () => {
  const tail = bench.run('requests', 'tail', '--json', '--user', 'ada')
  await askUntilTold({ user: 'ada' })
  const told = JSON.parse(printed.split('\n')[0] ?? '')
  await gateway.app.flushed()
  const { requests } = JSON.parse((await bench.run('requests', 'list', '--json')).stdout)
  expect(requests).toContainEqual(expect.objectContaining({ id: told.id }))
  const listed = requests.find(({ id }: { id: string }) => id === told.id)
  expect(told).toEqual({ ...listed, reason: null })
  await gateway.stop()
  expect((await tail).code).toBe(0)
})

test('--error-code follows requests with that error, and no others', async () => {
  gateway.upstream.script((seen) => (seen.json?.user === 'bad' ? errorAnswer(400) : wholeAnswer({ tokens: ['hi'] })))
  await (await gateway.chat({ user: 'bad' })).text()
  const code = (await gateway.app.settled(1)).at(-1)?.error_code
  const tail = bench.run('requests', 'tail', '--json', '--error-code', String(code))
  while (printed === '') {
    for (const user of ['good', 'bad']) await (await gateway.chat({ user })).text()
    await Bun.sleep(20)
  }
  await gateway.stop()
  expect((await tail).code).toBe(0)
  expect(
    new Set(
      printed
        .trim()
        .split('\n')
        .map((line) => JSON.parse(line).user),
    ),
  ).toEqual(new Set(['bad']))
})

test('it ends once no one reads its output', async () => {
  bench.isRead = false
  const tail = bench.run('requests', 'tail')
  await askUntilTold()
  expect(await tail).toMatchObject({ code: 0 })
})

test('without a server it fails', async () => {
  bench.environment = {}
  expect(await bench.run('requests', 'tail')).toEqual({
    code: 1,
    stdout: '',
    stderr: 'error: No server is running on this data folder. Start it first: tollgate serve\n',
  })
})
