/** What was answered in the place of a stream, as a sentence. Pure. */
import { isObject } from './json-text.ts'

export interface Failure {
  message: string
  isSignedOut: boolean
  /** Whether it is on record: a model was asked. What is refused before has no row. */
  isOnRecord: boolean
}

/** @param text of the answer: an error of the API for chats, of the admin API, or whatever a proxy says. */
export function toFailure(status: number, text: string): Failure {
  const error = toError(text)
  if (error === null)
    return { message: `Something on the way to the server failed (${status}).`, isSignedOut: false, isOnRecord: false }
  return {
    message: error.message,
    isSignedOut: error.kind === 'signed_out',
    isOnRecord: typeof error.code === 'string' && /^upstream_|^schema_not_met$/.test(error.code),
  }
}

function toError(text: string): { message: string; kind: unknown; code: unknown } | null {
  try {
    const json: unknown = JSON.parse(text)
    const error = isObject(json) ? json.error : null
    if (!isObject(error) || typeof error.message !== 'string') return null
    return { message: error.message, kind: error.kind, code: error.code }
  } catch {
    return null
  }
}
