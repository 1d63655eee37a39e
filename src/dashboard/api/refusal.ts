import { asObject } from '../../domain/json.ts'

/** Why something was not done: for people, and for a form that can point to the field. */
export class Refusal extends Error {
  constructor(
    message: string,
    /** As the API and the command line name it, or the code of the API for models; `unreachable` where nobody answered. */
    readonly kind: string,
    /** By its column's name. */
    readonly field: string | null = null,
  ) {
    super(message)
  }
}

export const UNREACHABLE = () =>
  new Refusal('The server does not answer. Where it is being started anew, try again in a moment.', 'unreachable')

/** What an answer says that is no good one: an error of one of our APIs, a proxy's own page, or nothing at all. */
export function readRefusal(answer: unknown, status: number): Refusal {
  const { message, kind, code, field } = asObject(asObject(answer)?.error) ?? {}
  if (typeof message === 'string')
    return new Refusal(message, String(kind ?? code), typeof field === 'string' ? field : null)
  // A proxy says 503 while the server behind it starts; nobody says 0.
  if (status === 0 || status === 503) return UNREACHABLE()
  return new Refusal(`Something on the way to the server failed (${status}).`, 'failed')
}
