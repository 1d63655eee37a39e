/** The binary with a low limit of open files: idle connections don't keep it from serving others. */
import { afterEach, beforeEach, expect, test } from 'bun:test'
import { connect, type Socket } from 'node:net'
import { join } from 'node:path'
import type { Status } from '../../src/server/protocol.ts'
import { createWorkplace, type RunningBinary, type Workplace } from '../support/binary.ts'
import { HELLO, toCatalogue } from '../support/gateway.ts'
import { obliging, type ScriptedUpstream, startUpstream } from '../support/upstream.ts'

let place: Workplace
let upstream: ScriptedUpstream
const sockets: Socket[] = []
beforeEach(async () => {
  place = createWorkplace()
  upstream = await startUpstream(obliging)
})
afterEach(async () => {
  for (const socket of sockets.splice(0)) socket.destroy()
  await place.close()
  await upstream.stop()
})

async function serve(ulimit: string, ...more: string[]): Promise<RunningBinary> {
  const catalog = await place.write('catalog.yaml', toCatalogue({ url: upstream.url }))
  const args = ['--first-key', '--probe', 'off', '--catalog', catalog, ...more]
  return place.serve(args, { environment: { UPSTREAM_KEY: 'x' }, ulimit })
}

async function limitOf(): Promise<Status['files']> {
  const response = await fetch('http://localhost/status', { unix: join(place.folder, 'data', 'control.sock') })
  const { files }: Status = JSON.parse(await response.text())
  return files
}

/** Opens so many connections, each of which sends only this. */
function idle({ baseUrl }: RunningBinary, count: number, says: string): void {
  const { hostname, port } = new URL(baseUrl)
  for (let each = 0; each < count; each++) {
    const socket = connect(Number(port), hostname, () => socket.write(says))
    socket.on('error', () => {})
    socket.resume()
    sockets.push(socket)
  }
}

const chat = ({ baseUrl, key }: RunningBinary) =>
  fetch(`${baseUrl}/chat/completions`, {
    method: 'POST',
    keepalive: false,
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify(HELLO),
    signal: AbortSignal.timeout(10_000),
  })

test.each([
  ['that have begun to ask', 'POST /v1/chat/completions HTTP/1.1\r\nho'],
  ['that are kept alive', 'GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n'],
])('600 connections %s, of 256 files, leave a place for those who ask', async (_, says) => {
  const server = await serve('-n 256')
  idle(server, 600, says)
  await server.logged('file descriptors are running out')
  for (let round = 0; round < 5; round++) {
    const asked = Array.from({ length: 4 }, () => chat(server))
    expect((await Promise.all(asked)).map(({ status }) => status)).toEqual([200, 200, 200, 200])
  }
  expect(server.stderr()).not.toContain('"level":"error"')
})

test('a limit too low for the configured requests is reported, and fewer are accepted', async () => {
  const server = await serve('-n 256')
  expect(await limitOf()).toEqual({ limit: 256, max_in_flight: 96, wanted_in_flight: 4_096 })
  expect(server.stdout()).toContain('The file descriptor limit is 256')
  await server.logged('The file descriptor limit is 256')
})

test.skipIf(process.platform !== 'linux')('two workers accept twice as many, and one line says so', async () => {
  const server = await serve('-n 256', '--processes', '2')
  expect(await limitOf()).toEqual({ limit: 256, max_in_flight: 192, wanted_in_flight: 4_096, processes: 2 })
  await server.logged('server_started')
  expect(server.stderr().match(/The file descriptor limit is 256 for each of 2 processes/g)?.length).toBe(1)
  expect(server.stderr().match(/file_descriptors_low/g)?.length).toBe(1)
})

test('a low soft limit is raised as far as the hard one allows', async () => {
  const hard = await new Response(Bun.spawn(['sh', '-c', 'ulimit -Hn'], { stdout: 'pipe' }).stdout).text()
  const server = await serve('-Sn 256')
  const { limit } = await limitOf()
  expect(limit).toBe(/\d/.test(hard) ? Math.min(Number(hard), 1_048_576) : 1_048_576)
  expect(server.stderr()).not.toContain('"limit":256')
})
