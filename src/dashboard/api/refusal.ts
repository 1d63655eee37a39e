import { asObject } from '../../domain/json.ts'

/** An API error with a message to show and, if known, the field it is about. */
export class Refusal extends Error {
  constructor(
    message: string,
    /** The admin API's `kind`, the model API's `code`, or `unreachable`. */
    readonly kind: string,
    readonly field: string | null = null,
  ) {
    super(message)
  }
}

export const UNREACHABLE = () =>
  new Refusal("Can't reach the server. If it is restarting, try again in a moment.", 'unreachable')

/** Reads an error of one of our APIs, a proxy's error page, or an empty response. */
export function readRefusal(answer: unknown, status: number): Refusal {
  const { message, kind, code, field } = asObject(asObject(answer)?.error) ?? {}
  if (typeof message === 'string')
    return new Refusal(message, String(kind ?? code), typeof field === 'string' ? field : null)
  // A proxy sends 503 while the server starts; 0 means no response.
  if (status === 0 || status === 503) return UNREACHABLE()
  return new Refusal(`A proxy in front of the server returned an error (${status}).`, 'failed')
}
