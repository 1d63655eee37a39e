/** Traces continue by W3C Trace Context, and begin as often as configured. */
import { expect, test } from 'bun:test'
import { beginTrace, toTraceHeaders } from '../../src/domain/trace.ts'

const TRACE = '0af7651916cd43dd8448eb211c80319c'
const [ALWAYS, NEVER] = [() => true, () => false]
const PARENT = 'b7ad6b7169203331'

test('a client’s trace continues in our own span, with its decision and state', () => {
  const traceparent = `00-${TRACE}-${PARENT}-01`
  const trace = beginTrace({ traceparent, tracestate: 'congo=t61rcWkgMzE' }, NEVER, 5)
  expect(trace).toMatchObject({ traceId: TRACE, parentId: PARENT, isSampled: true, startedMs: 5 })
  expect(trace?.spanId).toMatch(/^[\da-f]{16}$/)
  expect(trace?.spanId).not.toBe(PARENT)
  expect(trace && toTraceHeaders(trace, '1'.repeat(16))).toEqual({
    traceparent: `00-${TRACE}-${'1'.repeat(16)}-01`,
    tracestate: 'congo=t61rcWkgMzE',
  })
})

test("a trace that the client doesn't sample isn't sampled, but continues", () => {
  const trace = beginTrace({ traceparent: `00-${TRACE}-${PARENT}-00` }, ALWAYS, 0)
  expect(trace?.isSampled).toBe(false)
  expect(trace && toTraceHeaders(trace, PARENT)).toEqual({ traceparent: `00-${TRACE}-${PARENT}-00` })
})

test("a later version is read by this one's fields", () => {
  expect(beginTrace({ traceparent: `cc-${TRACE}-${PARENT}-01-more` }, NEVER, 0)).toMatchObject({ traceId: TRACE })
})

test.each([
  ['nothing', undefined],
  ['no header of this form', 'a-b-c-d'],
  ['an invalid version', `ff-${TRACE}-${PARENT}-01`],
  ['more than this version has', `00-${TRACE}-${PARENT}-01-more`],
  ['an empty trace', `00-${'0'.repeat(32)}-${PARENT}-01`],
  ['an empty span', `00-${TRACE}-${'0'.repeat(16)}-01`],
  ['capital letters', `00-${TRACE.toUpperCase()}-${PARENT}-01`],
])('%s begins a new trace, if that is sampled', (_, traceparent) => {
  const headers = traceparent === undefined ? {} : { traceparent }
  expect(beginTrace(headers, NEVER, 0)).toBeNull()
  expect(beginTrace(headers, ALWAYS, 0)).toMatchObject({ parentId: null, isSampled: true, state: null })
  expect(beginTrace(headers, ALWAYS, 0)?.traceId).not.toBe(TRACE)
})

test('a state that is too long or has control characters is dropped', () => {
  const traceparent = `00-${TRACE}-${PARENT}-01`
  for (const tracestate of ['x'.repeat(513), 'a=\u0001', 'a=é'])
    expect(beginTrace({ traceparent, tracestate }, NEVER, 0)?.state).toBeNull()
})
