/** What says that a request, or a call of it, has come to its end before its answer has. */

/** What is read of an `AbortSignal`, which is one: whoever has the work ended decides when, whoever does it listens. */
export interface EndSignal {
  readonly aborted: boolean
  readonly reason: unknown
  addEventListener(type: 'abort', listener: () => void, options?: { once?: boolean }): void
  removeEventListener(type: 'abort', listener: () => void): void
}

/** For a part of the work, which ends with all of it or before. */
export function partOf(whole: EndSignal): AbortController {
  const part = new AbortController()
  const end = () => part.abort(whole.reason)
  if (whole.aborted) end()
  else whole.addEventListener('abort', end, { once: true })
  return part
}
