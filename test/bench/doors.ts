/**
 * What a chunk of a stream costs by other doors than that of chats: of Messages that pass as they come, of Messages that are
 * written anew from chats, of chats themselves, and of the same bytes through the smallest proxy. `bun test/bench/doors.ts
 * [--streams 100] [--chunks 150] [--rounds 3]`; needs `bun run build`. CPU of each process from /proc, the median of its rounds.
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { findFreePort } from '../support/free-port.ts'
import { cpuMicros, guardChildren, startProcess, waitUntilUp } from './processes.ts'
import { startTollgate, toCatalog } from './tollgate.ts'

const { values } = parseArgs({
  options: {
    streams: { type: 'string', default: '100' },
    chunks: { type: 'string', default: '150' },
    rounds: { type: 'string', default: '3' },
  },
})
const [streams, chunks, rounds] = [values.streams, values.chunks, values.rounds].map(Number) as [number, number, number]
const PACE_MS = 20

const toDelta = (at: number) =>
  `event: content_block_delta\ndata: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":" word${at}"}}\n\n`
const MESSAGE = [
  'event: message_start\ndata: {"type":"message_start","message":{"id":"msg_01","type":"message","role":"assistant","model":"m","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":9,"output_tokens":1}}}\n\nevent: content_block_start\ndata: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}\n\n',
  ...Array.from({ length: chunks }, (_, at) => toDelta(at)),
  `event: content_block_stop\ndata: {"type":"content_block_stop","index":0}\n\nevent: message_delta\ndata: {"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"output_tokens":${chunks}}}\n\nevent: message_stop\ndata: {"type":"message_stop"}\n\n`,
]
const chunk = (delta: object, finish: string | null = null, more = {}) =>
  `data: ${JSON.stringify({ id: 'c', object: 'chat.completion.chunk', created: 1, model: 'm', choices: [{ index: 0, delta, finish_reason: finish }], ...more })}\n\n`
const CHAT = [
  chunk({ role: 'assistant', content: '' }),
  ...Array.from({ length: chunks }, (_, at) => chunk({ content: ` word${at}` })),
  `${chunk({}, 'stop', { usage: { prompt_tokens: 9, completion_tokens: chunks, total_tokens: 9 + chunks } })}data: [DONE]\n\n`,
]

const upstream = Bun.serve({
  hostname: '127.0.0.1',
  port: 0,
  idleTimeout: 255,
  fetch(request) {
    if (request.method === 'GET') return Response.json({ data: [] })
    const pieces = request.url.endsWith('/messages') ? MESSAGE : CHAT
    const body = async function* () {
      for (const piece of pieces) {
        yield piece
        await Bun.sleep(PACE_MS)
      }
    }
    return new Response(body(), { headers: { 'content-type': 'text/event-stream' } })
  },
})

/** Reads so many streams side by side, and returns what of the process's time each chunk took, in microseconds. */
async function measure(pid: number, url: string, key: string, model: string): Promise<number> {
  const read = async (at: number) => {
    await Bun.sleep((at * 1_000) / streams)
    const response = await fetch(url, {
      method: 'POST',
      headers: { 'content-type': 'application/json', authorization: `Bearer ${key}` },
      body: JSON.stringify({ model, max_tokens: 1_000, stream: true, messages: [{ role: 'user', content: 'Hi' }] }),
    })
    const text = await response.text()
    if (!text.includes(`word${chunks - 1}`))
      throw new Error(`${url} ${model}: ${response.status} ${text.slice(0, 300)}`)
  }
  const before = cpuMicros(pid)
  await Promise.all(Array.from({ length: streams }, (_, at) => read(at)))
  return (cpuMicros(pid) - before) / (streams * chunks)
}

guardChildren(600_000)
const root = mkdtempSync(join(tmpdir(), 'doors-'))
try {
  const origin = `http://127.0.0.1:${upstream.port}`
  const [port, floorPort] = [await findFreePort(), await findFreePort()]
  const catalog = JSON.parse(
    toCatalog(
      { claude: { base_url: `${origin}/v1` }, chats: { base_url: `${origin}/v1` } },
      { 'bench/native': [{ upstream: 'claude' }], 'bench/anew': [{ upstream: 'chats' }] },
    ),
  )
  catalog.upstreams.claude.dialect = 'anthropic'
  const tollgate = await startTollgate('tollgate', root, port, origin, JSON.stringify(catalog))
  const command = [process.execPath, resolve(import.meta.dir, 'floor.ts'), origin, String(floorPort)]
  const floor = startProcess(command, join(root, 'floor.log'))
  await waitUntilUp(`http://127.0.0.1:${floorPort}/v1/models`)
  const { pid } = tollgate.process
  const subjects: [string, () => Promise<number>][] = [
    ['smallest proxy, Messages', () => measure(floor.pid, `http://127.0.0.1:${floorPort}/v1/messages`, '', 'm')],
    ['Messages, passed', () => measure(pid, `${tollgate.origin}/v1/messages`, tollgate.key, 'bench/native')],
    ['Messages, from chats', () => measure(pid, `${tollgate.origin}/v1/messages`, tollgate.key, 'bench/anew')],
    ['chats', () => measure(pid, `${tollgate.origin}/v1/chat/completions`, tollgate.key, 'bench/anew')],
  ]
  const found = new Map<string, number[]>(subjects.map(([name]) => [name, []]))
  // The first round compiles.
  for (let round = 0; round <= rounds; round++)
    for (const [name, run] of subjects) {
      const micros = await run()
      if (round > 0) found.get(name)?.push(micros)
    }
  for (const [name, all] of found) {
    const median = all.toSorted((a, b) => a - b)[Math.floor(all.length / 2)] ?? 0
    console.log(`${name.padEnd(26)} ${median.toFixed(1).padStart(6)} us of CPU a chunk`)
  }
  await Promise.all([floor.stop(), tollgate.process.stop()])
} finally {
  rmSync(root, { recursive: true, force: true })
  await upstream.stop(true)
}
