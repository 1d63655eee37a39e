/** Messages to alert receivers: signed as their libraries verify them, without text that a chat would execute. */
import { expect, test } from 'bun:test'
import { MAX_LISTED, sign, toText } from '../../src/alerts/message.ts'
import type { SentAlert } from '../../src/domain/alerts.ts'

const alert = (message: string, more: Partial<SentAlert> = {}): SentAlert => ({
  ...{ id: 'upstream:upstream:a', topic: 'upstream', severity: 'problem', message, subject: null },
  ...{ path: '/upstreams?upstream=a', command: 'tollgate upstreams test a', status: 'started' },
  ...{ startedMs: 0, endedMs: null, ...more },
})
const textOf = (alerts: SentAlert[], more = 0, url: string | null = 'https://gate.example/admin') =>
  toText({ kind: 'alerts', alerts, more }, url)

test("a signature matches the reference library's", () => {
  // As signed by standardwebhooks 1.0.0 (npm).
  const text = 'msg_p5jXN8AQM9LWM0D4loKWxJek.1614265330.{"test": 2432232314}'
  expect(sign('whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw', text)).toBe('g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=')
})

test('a text says what happened, and where and how to act', () => {
  const message = 'Upstream a is down: connection refused.'
  expect(textOf([alert(message)])).toBe(
    `*Tollgate: problem*. ${message} To act: https://gate.example/admin/upstreams?upstream=a or \`tollgate upstreams test a\``,
  )
  expect(textOf([alert(message)], 0, null)).toEndWith(`${message} To act: \`tollgate upstreams test a\``)
  expect(textOf([alert(message, { status: 'ended', endedMs: 720_000 })])).toBe(
    `*Tollgate: resolved* after 12 min. It was: ${message}`,
  )
})

test('names and errors mention no one, add no lines, and stay short', () => {
  const hostile = `<!channel> @here </a>\n\n*x* \u202e${'<'.repeat(5_000)}`
  const text = textOf(
    Array.from({ length: MAX_LISTED }, () => alert(hostile)),
    3,
  )
  expect(text).not.toMatch(/<|@(?!\u200b)|\u202e/)
  expect(text.split('\n')).toHaveLength(MAX_LISTED + 1)
  expect(text.length).toBeLessThan(40_000)
  expect(text).toEndWith('And 3 more alerts: https://gate.example/admin')
})
