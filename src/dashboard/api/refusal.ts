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
  new Refusal("Can't reach the server. This page reconnects when it is back.", 'unreachable')

/** Browsers don't retry a script that failed to load. */
export const NOT_LOADED = new Refusal("Can't load this page from the server. Reload it.", 'unreachable')

/** At its field, a message doesn't repeat the field's name: `Invalid rpm: must be a number.` is `Must be a number.` */
export const toFieldMessage = (message: string, field: string): string =>
  message.replace(new RegExp(`^Invalid ${field}: (.)`), (_, first: string) => first.toUpperCase())

/** Reads an error of one of our APIs, a proxy's error page, or an empty response. */
export function readRefusal(answer: unknown, status: number): Refusal {
  const { message, kind, code, field } = asObject(asObject(answer)?.error) ?? {}
  if (typeof message === 'string')
    return new Refusal(message, String(kind ?? code), typeof field === 'string' ? field : toTakenField(String(kind)))
  // A proxy sends these while the server restarts; 0 means no response.
  if ([0, 502, 503, 504].includes(status)) return UNREACHABLE()
  return new Refusal(`A proxy in front of the server returned an error (${status}).`, 'failed')
}

/** The form field, if a name is taken. */
const toTakenField = (kind: string): string | null =>
  kind.endsWith('_exists') ? (kind === 'upstream_exists' ? 'id' : 'name') : null

/** Problems that the page reports once, for as long as they last. */
export const isPassing = ({ kind }: Refusal): boolean => kind === 'unreachable' || kind === 'signed_out'
