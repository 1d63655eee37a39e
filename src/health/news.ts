/**
 * Results of calls and checks, as JSON for the other processes of the server, which apply them like their own. A healthy upstream costs
 * one message per second.
 */
import type { Upstream } from '../domain/snapshot.ts'
import type { Readiness } from '../upstreams/backend.ts'
import { toErrorJson, type UpstreamErrorJson } from '../upstreams/error-json.ts'
import type { CallingRequest } from './breaker.ts'
import { isOfUpstream } from './errors.ts'
import type { CallNews } from './health.ts'
import type { KeptState, TargetState, UpstreamState } from './state.ts'

interface About {
  upstream: string
  /** Hash of the upstream's configuration: ignored by processes with another. */
  config: string
  /** Credential number of the call or check, if the upstream has several. */
  credential: number | null
}

interface Probed extends About {
  kind: 'probed'
  found: Readiness
}

interface Called extends About {
  kind: 'called'
  model: string
  keyId: string
  teamId: string | null
  /** A request counts once, whatever its number of calls. */
  request: string
  news: 'begun' | 'ok' | UpstreamErrorJson
}

export type HealthNews = Probed | Called

/** A known state, for a process that has just started. */
export interface Known {
  upstream: string
  config: string
  state: KeptState
}

/** Further equal failures add nothing: five open a breaker. */
const MAX_SAME = 20
const SAME_MS = 1_000
/** Remembered requests whose failures have been applied. */
const MAX_REQUESTS = 1_000

export class Teller {
  readonly #tell: (news: HealthNews) => void
  readonly #nowMs: () => number
  readonly #tag = crypto.randomUUID().slice(0, 8)
  readonly #requests = new WeakMap<CallingRequest, string>()
  #lastRequest = 0
  #told = new Map<string, number>()
  #sinceMs = Number.NEGATIVE_INFINITY

  /** @param nowMs monotonic clock. */
  constructor(tell: (news: HealthNews) => void, nowMs: () => number) {
    this.#tell = tell
    this.#nowMs = nowMs
  }

  probed(used: Upstream, configured: Upstream, found: Readiness): void {
    if (found.state === 'not_made') return
    this.#tell({ kind: 'probed', ...toAbout(configured, used), found })
  }

  /** Call before the result is applied. */
  called(request: CallingRequest, target: TargetState, news: CallNews, used: Upstream | null): void {
    if (news === 'aborted' || !this.#isWorth(request, target, news, used)) return
    const { keyId, teamId } = request
    this.#tell({
      ...{ kind: 'called', ...toAbout(target.owner.upstream, used), model: target.upstreamModel, keyId, teamId },
      request: this.#requests.getOrInsertComputed(request, () => `${this.#tag}-${++this.#lastRequest}`),
      news: typeof news === 'object' ? toErrorJson(news) : news,
    })
  }

  #isWorth(request: CallingRequest, target: TargetState, news: Exclude<CallNews, 'aborted'>, used: Upstream | null) {
    if (news === 'begun') return isBack(target.owner) || (target.breaker?.isProbedBy(request) ?? false)
    if (news === 'ok') return this.#isDue(target.owner) || isRepair(request, target, used)
    if (!isOfUpstream(news) && !news.isBusy) return false
    const { owner, upstreamModel } = target
    return this.#isRare(`${owner.upstream.id}\n${upstreamModel}\n${used?.credentialNumber}\n${news.kind}${news.status}`)
  }

  #isDue(owner: UpstreamState): boolean {
    const nowMs = this.#nowMs()
    if (nowMs - owner.toldMs < SAME_MS) return false
    owner.toldMs = nowMs
    return true
  }

  #isRare(about: string): boolean {
    const nowMs = this.#nowMs()
    if (nowMs - this.#sinceMs >= SAME_MS) {
      this.#sinceMs = nowMs
      this.#told.clear()
    }
    const count = this.#told.get(about) ?? 0
    this.#told.set(about, count + 1)
    return count < MAX_SAME
  }
}

/** True if it had not responded before. */
const isBack = ({ answers, unreached, timeouts, penalty }: UpstreamState): boolean =>
  !answers || unreached || timeouts > 0 || penalty?.kind === 'down'

/** True if a success clears a mark or resets a count of failures. */
function isRepair({ keyId }: CallingRequest, target: TargetState, used: Upstream | null): boolean {
  const { owner, breaker, refusedKeys, deps } = target
  return (
    isBack(owner) ||
    owner.penalty !== null ||
    owner.probeFailed ||
    (breaker?.hasFailed(keyId) ?? false) ||
    refusedKeys.has(keyId, deps.nowMs()) ||
    (used !== null && owner.credentials.isSuspended(used.credentialNumber))
  )
}

const toAbout = (configured: Upstream, used: Upstream | null): About => ({
  upstream: configured.id,
  config: toConfigHash(configured),
  credential: configured.each === null ? null : (used?.credentialNumber ?? null),
})

const HASHES = new WeakMap<Upstream, string>()

/** Covers what `isSame` compares. */
export const toConfigHash = (upstream: Upstream): string =>
  HASHES.getOrInsertComputed(upstream, ({ baseUrl, dialect, options }) =>
    Bun.hash(JSON.stringify([baseUrl, dialect, toNumbered(upstream), options])).toString(36),
  )

/** Credential state is kept by number, so numbers must match. */
export const toNumbered = (upstream: Upstream) =>
  (upstream.each ?? [upstream]).map(({ credentialNumber, credential }) => [credentialNumber, credential])

/** Requests of other processes, compared by identity. */
export class TakenRequests {
  readonly #known = new Map<string, CallingRequest>()

  of({ request, keyId, teamId }: Pick<Called, 'request' | 'keyId' | 'teamId'>): CallingRequest {
    const known = this.#known.get(request) ?? { keyId, teamId }
    this.#known.delete(request)
    this.#known.set(request, known)
    if (this.#known.size > MAX_REQUESTS) this.#known.delete(this.#known.keys().next().value ?? '')
    return known
  }
}
