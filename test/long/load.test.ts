/**
 * Many concurrent streams and uploads, and responses that no one reads. Through the binary, so that measured memory is
 * only the gateway's.
 */
import { afterEach, beforeEach, expect, test } from 'bun:test'
import { connect } from 'node:net'
import { join } from 'node:path'
import { FORM_TYPE, toForm, toWav } from '../support/audio-forms.ts'
import { createWorkplace, type Workplace } from '../support/binary.ts'
import { HELLO, toCatalogue } from '../support/gateway.ts'
import { startUpstream } from '../support/upstream.ts'
import { endlessAnswer } from '../support/upstream-answers.ts'

let place: Workplace
beforeEach(() => {
  place = createWorkplace()
})
afterEach(() => place.close())

async function serve(url: string) {
  const catalog = await place.write('catalog.yaml', toCatalogue({ url }))
  return place.serve(['--first-key', '--probe', 'off', '--disconnect-grace', '1s', '--catalog', catalog], {
    environment: { UPSTREAM_KEY: 'x' },
  })
}

/** Sends a streaming request on its own socket. */
function send(baseUrl: string, key: string | null, body: object) {
  const { hostname, port } = new URL(baseUrl)
  const socket = connect(Number(port), hostname)
  const json = JSON.stringify({ ...HELLO, stream: true, ...body })
  socket.write(
    `POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${key}\r\ncontent-type: application/json\r\ncontent-length: ${json.length}\r\n\r\n${json}`,
  )
  return socket
}

test('a thousand concurrent streams all end', async () => {
  const main = join(import.meta.dir, '../support/upstream-main.ts')
  const child = Bun.spawn([process.execPath, main], { stdin: 'pipe', stdout: 'pipe', stderr: 'inherit' })
  const { value } = await child.stdout.getReader().read()
  const server = await serve(new TextDecoder().decode(value).trim())

  // Every stream lasts long enough for all to begin: with a limit of 256 the others would not.
  const count = 1_000
  const all = Promise.withResolvers<void>()
  let begun = 0
  let ended = 0
  let mostAtOnce = 0
  for (let i = 0; i < count; i++) {
    const socket = send(server.baseUrl, server.key, { max_tokens: 24, pace_ms: 250 })
    let last = ''
    socket.once('data', () => {
      begun++
      mostAtOnce = Math.max(mostAtOnce, begun - ended)
    })
    socket.on('data', (bytes) => {
      last = (last + bytes.toString('latin1')).slice(-64)
      if (!last.includes('data: [DONE]\n\n')) return
      ended++
      socket.destroy()
      if (ended === count) all.resolve()
    })
    socket.on('error', all.reject)
  }
  await all.promise
  expect({ ended, mostAtOnce }).toEqual({ ended: count, mostAtOnce: count })
  child.stdin.end()
  await child.exited
}, 60_000)

test('a client that stops reading costs no memory, and the upstream is throttled', async () => {
  const upstream = await startUpstream(() => endlessAnswer(4_096))
  const server = await serve(upstream.url)
  const idle = await server.rss()
  const readers = Array.from({ length: 4 }, () => send(server.baseUrl, server.key, {}))
  for (const socket of readers) socket.once('data', () => socket.pause())
  await upstream.waitFor((seen) => seen.length === 4 && seen.every((each) => each.bytesSent > 100_000), 'the flood')
  await Bun.sleep(500)
  const sent = () => upstream.requests.reduce((sum, seen) => sum + seen.bytesSent, 0)
  const before = sent()
  await Bun.sleep(4_000)
  expect((await server.rss()) - idle).toBeLessThan(60e6)
  expect(sent() - before).toBeLessThan(60e6)

  for (const socket of readers) socket.destroy()
  await upstream.waitFor((seen) => seen.every((each) => each.abortedAtMs !== null), 'the aborts')
  await upstream.stop()
}, 30_000)

/** 25 MiB, the limit of most providers. */
const upload = () =>
  toForm([
    ['model', 'acme/hears'],
    ['file', toWav(819_000)],
  ])

async function serveMedia(url: string) {
  const model = (makes: string, price: string) =>
    `{ name: M, context_length: 100000, input_modalities: [text], output_modalities: [${makes}], pricing: [{ prompt: "0", completion: "0", ${price} }], routes: [{ upstream: near, model: m }] }`
  const catalog = await place.write(
    'catalog.yaml',
    `version: 1
upstreams: { near: { dialect: openai, base_url: "${url}", api_key: \${UPSTREAM_KEY} } }
models:
  acme/hears: ${model('transcription', 'audio_second: "0.0001"')}
  acme/speaks: ${model('speech', 'character: "0.00001"')}
`,
  )
  const flags = ['--first-key', '--probe', 'off', '--disconnect-grace', '1s', '--max-buffered', '128M']
  return place.serve([...flags, '--catalog', catalog], { environment: { UPSTREAM_KEY: 'x' } })
}

test('a hundred uploads of 25 MiB from one key are answered or refused within the memory for requests', async () => {
  const upstream = await startUpstream({ kind: 'whole', body: { text: 'Hello.' }, delayMs: 200 })
  const server = await serveMedia(upstream.url)
  const body = upload()
  const asked = { method: 'POST', headers: { authorization: `Bearer ${server.key}`, 'content-type': FORM_TYPE }, body }
  const idle = await server.rss()
  let peak = 0
  let isOver = false
  const watching = (async () => {
    while (!isOver) {
      peak = Math.max(peak, await server.rss())
      await Bun.sleep(20)
    }
  })()
  const outcomes = await Promise.all(
    Array.from({ length: 100 }, async () => {
      const response = await fetch(`${server.baseUrl}/audio/transcriptions`, asked).catch(() => null)
      await response?.text()
      return response?.status ?? 0
    }),
  )
  isOver = true
  await watching
  // A refused upload may lose its connection before it has read the error.
  expect(outcomes.filter((status) => ![200, 429, 503, 0].includes(status))).toEqual([])
  // Together they are 2.6 GB, and the limit is 128 MiB; freed memory isn't collected at once.
  expect(peak - idle).toBeLessThan(500e6)
  const status = await fetch(`${server.baseUrl}/audio/transcriptions`, asked).then((response) => response.status)
  expect(status).toBe(200)
  await upstream.stop()
}, 120_000)

test('clients that stop reading speech cost no memory, and the upstream is throttled', async () => {
  const piece = new Uint8Array(64 * 1024)
  function* endless() {
    for (;;) yield piece
  }
  const headers = { 'content-type': 'audio/pcm' }
  const upstream = await startUpstream(() => ({ kind: 'stream', headers, steps: endless(), end: 'hang' }))
  const server = await serveMedia(upstream.url)
  const idle = await server.rss()
  const { hostname, port } = new URL(server.baseUrl)
  const json = JSON.stringify({ model: 'acme/speaks', input: 'words '.repeat(16_666), voice: 'v' })
  const readers = Array.from({ length: 16 }, () => {
    const socket = connect(Number(port), hostname)
    socket.on('error', () => {})
    socket.once('data', () => socket.pause())
    socket.write(
      `POST /v1/audio/speech HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${server.key}\r\ncontent-type: application/json\r\ncontent-length: ${json.length}\r\n\r\n${json}`,
    )
    return socket
  })
  await upstream.waitFor((seen) => seen.length === 16 && seen.every((each) => each.bytesSent > 100_000), 'the flood')
  await Bun.sleep(1_000)
  const sent = () => upstream.requests.reduce((sum, seen) => sum + seen.bytesSent, 0)
  const before = sent()
  await Bun.sleep(3_000)
  expect(sent() - before).toBeLessThan(60e6)
  expect((await server.rss()) - idle).toBeLessThan(150e6)
  for (const socket of readers) socket.destroy()
  await upstream.stop()
}, 60_000)
