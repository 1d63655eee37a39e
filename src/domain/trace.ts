/** The trace of a request, by W3C Trace Context (https://www.w3.org/TR/trace-context/, November 2026). */

export interface Trace {
  readonly traceId: string
  /** ID of the request's own span. */
  readonly spanId: string
  /** The client's span; null if it sent none. */
  readonly parentId: string | null
  /** The client's `tracestate`, passed on unchanged. */
  readonly state: string | null
  readonly isSampled: boolean
  /** Start of the request, by the monotonic clock. */
  readonly startedMs: number
}

const PARENT = /^([\da-f]{2})-([\da-f]{32})-([\da-f]{16})-([\da-f]{2})(-.*)?$/
const INVALID_IDS = /^0+$/
const SAMPLED = 1
/** Longer ones may be dropped (section 3.3.1.5). */
const MAX_STATE_CHARS = 512

type Headers = Readonly<Record<string, string | undefined>>

/**
 * Continues the client's trace, with its decision on sampling, or begins one. Null if a new one isn't sampled, so that
 * most requests cost nothing.
 * @param isWanted whether to sample a new trace.
 */
export function beginTrace(headers: Headers, isWanted: () => boolean, startedMs: number): Trace | null {
  const parent = parseParent(headers.traceparent)
  if (parent === null) {
    if (!isWanted()) return null
    return { traceId: mintHex(16), spanId: mintHex(8), parentId: null, state: null, isSampled: true, startedMs }
  }
  const { tracestate = '' } = headers
  const state = tracestate !== '' && tracestate.length <= MAX_STATE_CHARS && isPrintable(tracestate) ? tracestate : null
  return { ...parent, spanId: mintHex(8), state, startedMs }
}

/** Headers of a call, which is a child of the request's span. */
export const toTraceHeaders = ({ traceId, state, isSampled }: Trace, spanId: string): Record<string, string> => ({
  traceparent: `00-${traceId}-${spanId}-${isSampled ? '01' : '00'}`,
  ...(state === null ? {} : { tracestate: state }),
})

export const mintSpanId = () => mintHex(8)

function parseParent(text = ''): Pick<Trace, 'traceId' | 'parentId' | 'isSampled'> | null {
  const [, version = 'ff', traceId = '', parentId = '', flags = '', more] = PARENT.exec(text.trim()) ?? []
  // Later versions may add fields; `ff` is invalid.
  if (version === 'ff' || (version === '00' && more !== undefined)) return null
  if (INVALID_IDS.test(traceId) || INVALID_IDS.test(parentId)) return null
  return { traceId, parentId, isSampled: (Number.parseInt(flags, 16) & SAMPLED) === SAMPLED }
}

const isPrintable = (text: string) => /^[\x20-\x7e]*$/.test(text)

const mintHex = (bytes: number): string => crypto.getRandomValues(Buffer.alloc(bytes)).toString('hex')
