/**
 * A kill while a local server with a price per second is running: the request costs its reservation, and its row
 * explains that.
 */
import { expect, test } from 'bun:test'
import { createWorkplace } from '../support/binary.ts'
import { startUpstream } from '../support/upstream.ts'
import { toDelta, wholeAnswer } from '../support/upstream-answers.ts'

const FACTS = 'context_length: 32768, max_output_length: 100, input_modalities: [text], output_modalities: [text]'
/** 2 s for a whole response, 30 s for a stream, at 500 nano-dollars per ms. */
const [WHOLE, STREAM] = [2_000 * 500, 30_000 * 500]
const PRICE = '{ prompt: "0", completion: "0", second: "0.0005" }'

test('a kill charges the reservation, and calls that had ended by their own time', async () => {
  const place = createWorkplace()
  const upstream = await startUpstream()
  try {
    const local = `dialect: openai, base_url: "${upstream.url}", local: true, deadlines: { total: 30s, total_whole: 2s }`
    const catalog = await place.write(
      'catalog.yaml',
      `version: 1
upstreams:
  one: { ${local} }
  single: { ${local}, n: false, concurrency: 1 }
models:
  acme/one: { name: A, ${FACTS}, supported_features: [], routes: [{ upstream: one, model: m, pricing: [${PRICE}] }] }
  acme/single: { name: A, ${FACTS}, supported_features: [], routes: [{ upstream: single, model: m, pricing: [${PRICE}] }] }
`,
    )
    const server = await place.serve(['--first-key', '--catalog', catalog])
    const ask = (body: object = {}) =>
      fetch(`${server.baseUrl}/chat/completions`, {
        method: 'POST',
        headers: { authorization: `Bearer ${server.key}`, 'content-type': 'application/json' },
        body: JSON.stringify({ model: 'acme/one', messages: [{ role: 'user', content: 'Hello' }], ...body }),
      })
    upstream.script(wholeAnswer())
    await (await ask()).text()
    upstream.script({ kind: 'stream', steps: [toDelta({ content: 'one' })], end: 'hang' })
    const streamed = await ask({ stream: true })
    await streamed.body?.getReader().read()
    upstream.script({ kind: 'silent' })
    const pending = [ask().catch(() => null)]
    await upstream.waitFor((seen) => seen.length === 3, 'three calls')
    // Its two calls are sequential.
    upstream.script(() => (upstream.requests.length === 4 ? { ...wholeAnswer(), delayMs: 50 } : { kind: 'silent' }))
    pending.push(ask({ model: 'acme/single', n: 2 }).catch(() => null))
    await upstream.waitFor((seen) => seen.length === 5, 'five calls')
    server.signal('SIGKILL')
    await server.exited
    await Promise.all(pending)

    await place.serve(['--catalog', catalog])
    const { requests } = JSON.parse((await place.run('requests', 'list', '--json')).stdout)
    const [several, whole, stream, ended] = requests
    const reserved = (nanoUsd: number) => ({ status: 'abandoned', reserved_nano_usd: nanoUsd, cost_nano_usd: nanoUsd })
    expect([whole, stream]).toMatchObject([
      { ...reserved(WHOLE), stream: 0, compute_ms: 0 },
      { ...reserved(STREAM), stream: 1, compute_ms: 0 },
    ])
    expect(ended).toMatchObject({ status: 'ok', reserved_nano_usd: WHOLE, cost_nano_usd: ended.compute_ms * 500 })
    expect(several).toMatchObject({ attempts: 2, status: 'abandoned', cost_nano_usd: WHOLE + several.compute_ms * 500 })
    expect(several.compute_ms).toBeGreaterThan(0)
    for (const { id } of requests) {
      const shown = await place.run('requests', 'show', id, '--json')
      expect([shown.code, JSON.parse(shown.stdout).matches_ledger]).toEqual([0, true])
    }
    expect((await place.run('ledger', 'verify')).code).toBe(0)
  } finally {
    await place.close()
    await upstream.stop()
  }
})
