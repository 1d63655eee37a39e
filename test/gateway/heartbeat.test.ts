/** A long idle stream: keep-alives, and an honest end. */
import { describe, expect, test } from 'bun:test'
import { toFrames } from '../support/frames.ts'
import { startGateway } from '../support/gateway.ts'
import { forAllTests } from '../support/lifetime.ts'
import { errorAnswer, streamAnswer, wholeAnswer } from '../support/upstream-answers.ts'

const BEAT = ': keep-alive\n\n'
const SILENCE = 400

const gateway = forAllTests(() => startGateway({ config: { heartbeatMs: 50 } }))

const [role, ...words] = streamAnswer({ tokens: ['one ', 'two'] }).steps

async function play(body = {}): Promise<{ response: Response; text: string; beats: number; rest: string }> {
  const response = await gateway.chat({ stream: true, ...body })
  const text = await response.text()
  return { response, text, beats: text.split(BEAT).length - 1, rest: text.replaceAll(BEAT, '') }
}

describe('before the first token', () => {
  test('heartbeats begin a stream that then continues normally', async () => {
    gateway.upstream.script({ ...streamAnswer({ tokens: ['one ', 'two'] }), delayMs: SILENCE })
    const { response, text, beats, rest } = await play()
    expect(response.status).toBe(200)
    expect(response.headers.get('x-request-id')).toMatch(/^req_[0-9a-f]{32}$/)
    expect(text).toStartWith(BEAT)
    expect(beats).toBeGreaterThan(1)
    expect(toFrames(rest)).toMatchObject({ done: true, content: 'one two' })
  })

  test("a role without text isn't content: heartbeats continue", async () => {
    gateway.upstream.script({ kind: 'stream', steps: [role ?? '', { waitMs: SILENCE }, ...words] })
    const { text, rest } = await play()
    expect(text).toStartWith(BEAT)
    expect(toFrames(rest)).toMatchObject({ done: true, content: 'one two' })
  })

  test('a failure has its own status while nothing was sent', async () => {
    gateway.upstream.script(errorAnswer(500))
    const { response } = await play()
    expect(response.status).toBe(502)
  })

  test('a failure after a heartbeat is an error frame, and is free', async () => {
    gateway.upstream.script({ ...errorAnswer(500), delayMs: SILENCE })
    const before = await gateway.app.count()
    const { response, text, rest } = await play()
    expect(response.status).toBe(200)
    expect(text).toStartWith(BEAT)
    expect(toFrames(rest)).toMatchObject({ done: false, error: { code: 'upstream_failed' } })
    expect((await gateway.app.settled(before + 1)).at(-1)).toMatchObject({
      status: 'failed',
      http_status: 200,
      error_code: 'upstream_failed',
      cost_nano_usd: 0,
    })
  })

  test('a client that disconnects during the silence ends the call', async () => {
    gateway.upstream.script({ kind: 'silent' })
    const before = await gateway.app.count()
    const client = new AbortController()
    const response = await gateway.chat({ stream: true }, { signal: client.signal })
    client.abort()
    await expect(response.text()).rejects.toThrow()
    expect((await gateway.app.settled(before + 1)).at(-1)).toMatchObject({ status: 'cut', estimated: 1 })
    await gateway.upstream.waitFor((all) => all.at(-1)?.abortedAtMs !== null, 'the end of the call')
  })
})

test('between two tokens there are heartbeats, too', async () => {
  const [first, ...rest] = words
  gateway.upstream.script({ kind: 'stream', steps: [role ?? '', first ?? '', { waitMs: SILENCE }, ...rest] })
  const { text, beats, rest: frames } = await play()
  expect(beats).toBeGreaterThan(1)
  expect(text.indexOf('one ')).toBeLessThan(text.indexOf(BEAT))
  expect(toFrames(frames)).toMatchObject({ done: true, content: 'one two' })
})

test('a whole response has none, however long it takes', async () => {
  gateway.upstream.script({ ...wholeAnswer({ tokens: ['one'] }), delayMs: SILENCE })
  const response = await gateway.chat()
  expect(await response.text()).not.toContain('keep-alive')
})

test('a stream that the upstream sends as a whole response is still a stream', async () => {
  gateway.upstream.script(wholeAnswer({ tokens: ['one ', 'two'] }))
  const { rest } = await play({ stream_options: { include_usage: true } })
  const { frames, done, content } = toFrames(rest)
  expect({ done, content }).toEqual({ done: true, content: 'one two' })
  expect(frames.at(-1)?.usage).toMatchObject({ prompt_tokens: 10, completion_tokens: 2 })
})
