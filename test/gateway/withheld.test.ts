/** If a stream's outcome can't be recorded, its end is withheld, in every format. */
import { expect, test } from 'bun:test'
import type { Settlement } from '../../src/accounting/settle.ts'
import { GatewayError } from '../../src/domain/error.ts'
import type { AnswerEvent } from '../../src/domain/events.ts'
import { chat } from '../../src/formats/chat/chat.ts'
import { completions } from '../../src/formats/completions.ts'
import type { Format } from '../../src/formats/format.ts'
import { messages } from '../../src/formats/messages/messages.ts'
import { responses } from '../../src/formats/responses/responses.ts'
import { QueueNote } from '../../src/gateway/delivery.ts'
import { deliverStream } from '../../src/gateway/stream.ts'
import { toTarget } from '../support/snapshot.ts'

const HI = [{ role: 'user', content: 'Hi' }]
const DOORS: Record<string, { format: Format; asked: object; said: string; end: string; failed: string }> = {
  chat: { format: chat, asked: { messages: HI }, said: '', end: '[DONE]', failed: '"error":' },
  messages: {
    ...{ format: messages, asked: { messages: HI, max_tokens: 9 }, failed: 'event: error\n' },
    ...{ said: '{"type":"content_block_delta"}', end: '{"type":"message_stop"}' },
  },
  responses: {
    ...{ format: responses, asked: { input: 'Hi' }, failed: '"status":"failed"' },
    ...{ said: '{"type":"response.output_text.delta"}', end: '{"type":"response.completed"}' },
  },
  completions: {
    ...{ format: completions, asked: { prompt: 'Hi' }, failed: '"error":' },
    ...{ said: '{"choices":[{"text":"Hi"}]}', end: '[DONE]' },
  },
}

async function deliver(door: string, isPassthrough: boolean): Promise<string> {
  const { format, asked, said, end } = DOORS[door] ?? {}
  const body = { model: 'a/b', stream: true, ...asked }
  const task = format?.toTask(body, { text: JSON.stringify(body), headers: {} })
  if (!format || !task || task instanceof GatewayError) throw task
  const full = new GatewayError('ledger_unavailable', 'The ledger has no room.')
  const settlement: Pick<Settlement, 'firstToken' | 'settle' | 'attempts' | 'upstream'> = {
    ...{ attempts: 1, upstream: 'up', firstToken() {} },
    settle: () => Promise.reject(full),
  }
  const raw = (data = '', isTail = false): AnswerEvent[] =>
    isPassthrough ? [{ kind: 'raw', name: null, data, origin: null, isContent: !isTail, isTail }] : []
  const events: AnswerEvent[] = [
    ...raw(said),
    { kind: 'text', choice: 0, text: 'Hi' },
    ...raw(end, true),
    { kind: 'finish', choice: 0, reason: 'stop' },
    { kind: 'done' },
  ]
  const answer = { events, rest: null, upstreamRequestId: null, ...(isPassthrough ? { isPassthrough } : {}) }
  const { signal } = new AbortController()
  const response = await deliverStream(
    {
      ...{ requestId: 'req_1', format, task, identity: { id: '1', created: 1, model: 'a/b' } },
      ...{ settlement: settlement as Settlement, signal, client: signal, headers: {} },
      ...{ waiting: new QueueNote(), held: new DisposableStack() },
    },
    Promise.resolve({ target: toTarget({}), answer, events }),
    { heartbeatMs: 0, slowReaderMs: 1_000 },
  )
  return response.text()
}

test.each([
  ['chat', false],
  ['messages', false],
  ['messages', true],
  ['responses', false],
  ['responses', true],
  ['completions', true],
])('%s, unchanged: %p', async (door, isPassthrough) => {
  const text = await deliver(door, isPassthrough)
  const { end = '', failed = '' } = DOORS[door] ?? {}
  expect(text).not.toContain(end.replace(/[{}]/g, '') || 'no such door')
  expect(text.trim().split('\n\n').at(-1)).toContain(failed)
})
