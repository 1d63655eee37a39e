/** Authenticates requests that aren't model calls. They have no row and no rate limit. */
import { GatewayError, orThrow } from '../domain/error.ts'
import type { Key } from '../domain/snapshot.ts'
import type { InTurn } from '../formats/format.ts'
import type { HandleDeps } from '../gateway/handle.ts'
import { MAX_BODY_BYTES, type RequestHeaders, receive } from '../gateway/read.ts'
import { authenticate, type IpOf, toToken } from '../keys/token.ts'

type CallerDeps = Pick<HandleDeps, 'live' | 'refusals' | 'now'>

export interface Asking {
  request: Request
  headers: RequestHeaders
  bearer: string | undefined
}

/** @param inUrl see `toToken`. Throws a GatewayError and counts it. */
export function callerOf(deps: CallerDeps, ipOf: IpOf, asking: Asking, inUrl: string | null = null): Key {
  const { request, headers, bearer } = asking
  const caller = { request, headers, token: toToken(bearer, headers, inUrl), ipOf }
  const key = authenticate(deps.live.snapshot, caller, deps.now())
  if (!(key instanceof GatewayError)) return key
  deps.refusals.note(key.kind, key.key, deps.now())
  throw key
}

type ReceiveDeps = Pick<HandleDeps, 'load' | 'uploads' | 'pace'>

/** The body counts toward request memory until `use` is done. */
export async function withBody<T>(
  { load, uploads, pace }: ReceiveDeps,
  key: Key,
  request: Request,
  use: (bytes: Uint8Array) => Promise<T>,
  maxBytes = MAX_BODY_BYTES,
): Promise<T> {
  using slot = orThrow(load.enter(key))
  const inTurn: InTurn = (work) => pace.run(key.quotaId, work)
  return await use(orThrow(await receive(request, slot, uploads, maxBytes, inTurn)))
}
