/** What a collector may do to the exporter, on real sockets: refuse, ask for a pause, hang, send without end. */
import { afterEach, expect, test } from 'bun:test'
import { createLog } from '../../src/log.ts'
import { Exporter, type ExporterOptions } from '../../src/telemetry/exporter.ts'
import { until } from '../support/until.ts'

const WAITS = { gatherMs: 1, deadlineMs: 10_000, retryMs: 1, closeMs: 50 }
let stop: (() => unknown)[] = []
afterEach(async () => {
  for (const each of stop) await each()
  stop = []
})

function startCollector(answer: (attempt: number) => Response | Promise<Response>) {
  const bodies: string[] = []
  const server = Bun.serve({
    port: 0,
    async fetch(request) {
      bodies.push(await request.text())
      return answer(bodies.length)
    },
  })
  stop.push(() => server.stop(true))
  return { bodies, url: server.url.origin }
}

function startExporter(url: string, waits: Partial<typeof WAITS> = {}) {
  const done = { sent: 0, dropped: 0 }
  const lines: string[] = []
  const log = createLog({ now: () => 0, write: async (text) => void lines.push(text.toString()) })
  const options: ExporterOptions = {
    ...{ url, log, headers: { 'x-secret': 'the collector’s own'.replace('’', '') }, waits: { ...WAITS, ...waits } },
    onDone: (_, outcome, count) => {
      done[outcome] += count
    },
  }
  const exporter = new Exporter(options, (spans) => spans.join(','))
  const logged = async () => {
    await log.flush()
    return lines.join('')
  }
  return { exporter, done, logged }
}

test('spans go together in few requests', async () => {
  const { bodies, url } = startCollector(() => new Response('{}'))
  const { exporter, done } = startExporter(url)
  exporter.addSpans(['a', 'b'])
  exporter.addSpans(['c'])
  await until('sent spans', () => done.sent === 3)
  expect(bodies).toEqual(['a,b,c'])
})

test.each([429, 502, 503, 504])('%d is tried again, other statuses are not', async (status) => {
  const { bodies, url } = startCollector((attempt) =>
    attempt === 1
      ? new Response('', { status, headers: { 'retry-after': '0' } })
      : new Response('', { status: attempt === 2 ? 200 : 400 }),
  )
  const { exporter, done, logged } = startExporter(url)
  exporter.addSpans(['a'])
  await until('sent spans', () => done.sent === 1)
  exporter.addSpans(['b', 'c'])
  await until('dropped spans', () => done.dropped === 2)
  expect(bodies).toEqual(['a', 'a', 'b,c'])
  expect(await logged()).toContain('telemetry_recovered')
})

test('one that hangs, or whose answer has no end, costs a bounded queue and a bounded stop', async () => {
  const { url } = startCollector(() => new Promise<Response>(() => {}))
  const { exporter, done, logged } = startExporter(url)
  for (let at = 0; at < 10_000; at++) exporter.addSpans(['span'])
  expect(done.dropped).toBeGreaterThan(5_000)
  await exporter.close()
  expect(done.sent).toBe(0)
  exporter.addSpans(['late'])
  expect(await logged()).not.toContain('secret')

  const endless = startCollector(
    () => new Response(new ReadableStream({ pull: (controller) => void controller.enqueue(new Uint8Array(65_536)) })),
  )
  const other = startExporter(endless.url)
  other.exporter.addSpans(['a'])
  await until('sent spans', () => other.done.sent === 1)
})

test('one that cannot be reached is given up after some tries, and logged once', async () => {
  const { exporter, done, logged } = startExporter('http://127.0.0.1:1')
  exporter.addSpans(['a'])
  await until('dropped spans', () => done.dropped === 1)
  expect((await logged()).match(/telemetry_failed/g)).toHaveLength(1)
})

test('a stop sends what waits', async () => {
  const { bodies, url } = startCollector(() => new Response('{}'))
  const { exporter } = startExporter(url, { gatherMs: 60_000, closeMs: 10_000 })
  exporter.addSpans(['a'])
  exporter.setMetrics('figures')
  await exporter.close()
  expect(bodies).toEqual(['figures', 'a'])
})
