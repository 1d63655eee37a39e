import { afterEach, describe, expect, test } from 'bun:test'
import { type Script, type ScriptedUpstream, startUpstream } from './upstream.ts'
import { endlessAnswer, errorAnswer, streamAnswer, wholeAnswer } from './upstream-answers.ts'

let upstream: ScriptedUpstream | null = null
afterEach(async () => {
  await upstream?.stop()
  upstream = null
})

async function ask(script: Script | undefined, body: object = {}, signal?: AbortSignal): Promise<Response> {
  upstream ??= await startUpstream(script)
  return fetch(`${upstream.url}/chat/completions`, {
    method: 'POST',
    headers: { authorization: 'Bearer secret' },
    body: JSON.stringify(body),
    ...(signal ? { signal } : {}),
  })
}

const stateOf = async (answer: Response) =>
  answer.text().then(
    (text) => ({ text, broken: false }),
    () => ({ text: '', broken: true }),
  )

describe('the scripted upstream', () => {
  test('responds whole or streamed as requested, and records requests', async () => {
    const whole = await ask(undefined, { model: 'm' })
    expect(await whole.json()).toMatchObject({ choices: [{ finish_reason: 'stop' }], usage: { completion_tokens: 5 } })
    const streamed = await ask(undefined, { stream: true, stream_options: { include_usage: true } })
    const text = await streamed.text()
    expect(text.match(/^data: /gm)).toHaveLength(9)
    expect(text).toEndWith('data: [DONE]\n\n')
    const [first] = upstream?.requests ?? []
    expect(first).toMatchObject({
      method: 'POST',
      path: '/v1/chat/completions',
      json: { model: 'm' },
      abortedAtMs: null,
    })
    expect(first?.headers.authorization).toBe('Bearer secret')
  })

  test.each([
    ['an error with a retry header', errorAnswer(429, 'slow down', { 'retry-after': '7' }), 429, 'slow down'],
    ['HTML with 200', { kind: 'whole', body: '<h1>hi</h1>' } as const, 200, '<h1>hi</h1>'],
    ['a compressed answer', wholeAnswer({ tokens: ['packed'], gzip: true }), 200, 'packed'],
    ['a compressed stream', streamAnswer({ tokens: ['packed'], gzip: true }), 200, 'packed'],
    ['one byte a chunk', streamAnswer({ tokens: ['déjà'], bytesPerWrite: 1 }), 200, 'déjà'],
    ['an end without [DONE]', streamAnswer({ end: 'eof', finish: null }), 200, 'tok4'],
  ])('sends %s', async (_, script, status, content) => {
    const answer = await ask(script)
    expect(answer.status).toBe(status)
    expect(await answer.text()).toContain(content)
  })

  test.each(['cut', 'reset'] as const)('interrupts a stream by %s', async (end) => {
    const state = await stateOf(await ask(streamAnswer({ end, paceMs: 1 })))
    expect(state.broken).toBe(true)
    expect(upstream?.requests[0]?.abortedAtMs).toBeNull()
  })

  test('closes without a response', async () => {
    expect(await ask({ kind: 'reset' }).catch(() => 'refused')).toBe('refused')
  })

  test('notices that its client disconnected while it was silent', async () => {
    const leave = new AbortController()
    const pending = ask({ kind: 'silent' }, {}, leave.signal).catch(() => 'left')
    while (!upstream?.requests.length) await Bun.sleep(1)
    leave.abort()
    expect(await pending).toBe('left')
    await upstream.waitFor(([seen]) => seen?.abortedAtMs !== null, 'the abort')
  })

  test('writes an endless stream only as fast as it is read, and notices the end of reading', async () => {
    const leave = new AbortController()
    const answer = await ask(endlessAnswer(65_536), {}, leave.signal)
    const reader = answer.body?.getReader()
    await reader?.read()
    const sent = () => upstream?.requests[0]?.bytesSent ?? 0
    // Kernel buffers fill at their own pace; an upstream that did not wait would never stop.
    let before = -1
    for (let tries = 0; sent() !== before && tries < 50; tries++) {
      before = sent()
      await Bun.sleep(200)
    }
    expect(sent()).toBe(before)
    leave.abort()
    await reader?.read().catch(() => {})
    await upstream?.waitFor(([seen]) => seen?.abortedAtMs !== null, 'the abort')
  })

  test('keeps the configured pace', async () => {
    const began = performance.now()
    await (await ask(streamAnswer({ tokens: 4, paceMs: 20 }))).text()
    expect(performance.now() - began).toBeGreaterThan(100)
  })
})
