/**
 * Whom an upstream's status blames: the client's request, or the configuration of this server, which is then never
 * the fault of a client. Pure.
 */

/** What an upstream says about the request itself: the client should read it, and the next upstream would say it too. */
const OF_THE_REQUEST: ReadonlySet<number | null> = new Set([400, 413, 422])

export const blamesTheRequest = (status: number | null): boolean => OF_THE_REQUEST.has(status)

/** The credential or the account: whatever model is asked for, it is refused. */
const OF_THE_UPSTREAM: Readonly<Record<number, string>> = {
  401: 'its api_key in the catalogue is missing or wrong',
  402: 'its account has to be paid',
  403: 'its api_key in the catalogue, or its account, may not do this',
}

/** The address or the model's name there. */
const OF_THE_TARGET: Readonly<Record<number, string>> = {
  404: 'its base_url, or the model of its route in the catalogue, does not exist there',
  405: 'its base_url in the catalogue is not that of a chat API',
}

export interface Refusal {
  /** Whether all models of the upstream are refused, or this one. */
  of: 'upstream' | 'target'
  /** Such as `its account has to be paid`. */
  why: string
}

/** Reads a status; null where it blames nothing on us. */
export function toRefusal(status: number): Refusal | null {
  const ofUpstream = OF_THE_UPSTREAM[status]
  if (ofUpstream !== undefined) return { of: 'upstream', why: ofUpstream }
  const ofTarget = OF_THE_TARGET[status]
  return ofTarget === undefined ? null : { of: 'target', why: ofTarget }
}
