/**
 * Model servers belong to the keeper. For each call, a worker asks the keeper, and gets the server's URL and key, or waits in
 * the same queue as the calls of other workers.
 */
import { endOfUnsent, UpstreamError } from '../../domain/error.ts'
import { type Link, topic } from '../../domain/link.ts'
import type { ServerState } from '../../domain/model-server.ts'
import type { Upstream } from '../../domain/snapshot.ts'
import type { Ask, Fleet } from '../../processes/fleet.ts'
import { type Lease, type Outcome, toGone, toStopping } from '../../processes/model.ts'
import type { Readiness } from '../../upstreams/backend.ts'
import { toErrorJson, toUpstreamError, type UpstreamErrorJson } from '../../upstreams/error-json.ts'

interface Asked {
  number: number
  upstream: string
  owner: string
  patienceMs: number
}

type Lent = { baseUrl: string | null; key: string | null } | { error: UpstreamErrorJson }

const LEASE = topic<Asked, Lent>('lease')
/** The call no longer waits. It may have been granted in between. */
const LEAVE = topic<number>('lease.leave')
const HEARD = topic<number>('lease.heard')
const OVER = topic<[number: number, outcome: Outcome]>('lease.over')
/** To the worker: changed positions in the queue. */
const NOTES = topic<[number: number, note: string][]>('lease.notes')

const NOTES_MS = 250
const HEARD_MS = 1_000

interface Lending {
  readonly gone: AbortController
  lease: Lease | null
  note: (() => string) | null
  told: string
}

/** Runs in the keeper. Leases of a worker are returned once it has ended. */
export function lendServers(
  link: Link,
  fleet: Pick<Fleet, 'lease'>,
  upstreamOf: (id: string) => Upstream | undefined,
): void {
  const lendings = new Map<number, Lending>()
  let timer: Timer | null = null

  const tellNotes = () => {
    const notes: [number, string][] = []
    let areWaiting = false
    for (const [number, one] of lendings) {
      if (one.note === null) continue
      areWaiting = true
      const note = one.note()
      if (note === one.told) continue
      one.told = note
      notes.push([number, note])
    }
    if (notes.length > 0) link.tell(NOTES, notes)
    if (!areWaiting) stopNotes()
  }
  const stopNotes = () => {
    if (timer) clearInterval(timer)
    timer = null
  }

  const lend = async ({ upstream: id, owner, patienceMs }: Asked, one: Lending): Promise<Lent> => {
    const upstream = upstreamOf(id)
    if (upstream === undefined) throw toGone()
    const { signal } = one.gone
    const onWaiting: Ask['onWaiting'] = (note) => {
      one.note = note
      if (note !== null) timer ??= setInterval(tellNotes, NOTES_MS).unref()
    }
    const lease = await fleet.lease({ upstream, owner, signal, patienceMs, onWaiting })
    if (signal.aborted) {
      lease.over('none')
      throw endOfUnsent(signal)
    }
    one.lease = lease
    return { baseUrl: lease.upstream.baseUrl, key: lease.upstream.credential }
  }

  const giveBack = (number: number, outcome: Outcome) => {
    lendings.get(number)?.lease?.over(outcome)
    lendings.delete(number)
  }
  const leave = (number: number) => {
    lendings.get(number)?.gone.abort('superseded')
    giveBack(number, 'none')
  }

  link.on(LEASE, async (asked) => {
    const one: Lending = { gone: new AbortController(), lease: null, note: null, told: '' }
    lendings.set(asked.number, one)
    try {
      return await lend(asked, one)
    } catch (error) {
      lendings.delete(asked.number)
      if (!(error instanceof UpstreamError)) throw error
      return { error: toErrorJson(error) }
    }
  })
  link.on(LEAVE, leave)
  link.on(HEARD, (number) => lendings.get(number)?.lease?.heard())
  link.on(OVER, ([number, outcome]) => giveBack(number, outcome))
  void link.ended.then(() => {
    for (const number of [...lendings.keys()]) leave(number)
    stopNotes()
  })
}

/** Replaces a `Fleet` in a worker. */
export class RemoteFleet implements Pick<Fleet, 'lease' | 'probe' | 'stateOf'> {
  readonly #link: Link
  #states: ReadonlyMap<string, ServerState> = new Map()
  readonly #notes = new Map<number, Ask['onWaiting']>()
  readonly #leased = new WeakMap<Upstream, Upstream>()
  readonly #heardMs = new Map<string, number>()
  #last = 0

  constructor(link: Link) {
    this.#link = link
    link.on(NOTES, (notes) => {
      for (const [number, note] of notes) this.#notes.get(number)?.(() => note)
    })
  }

  renew(states: readonly [id: string, ServerState][]): void {
    this.#states = new Map(states)
  }

  stateOf = (id: string): ServerState | null => this.#states.get(id) ?? null

  /** The keeper checks servers. */
  probe = async (): Promise<Readiness> => ({ state: 'unknown' })

  /** Like `Fleet.lease`. Also rejects with an UpstreamError if the keeper has ended. */
  async lease({ upstream, owner, signal, patienceMs, onWaiting }: Ask): Promise<Lease> {
    if (signal.aborted) throw endOfUnsent(signal)
    const link = this.#link
    const number = ++this.#last
    const { promise: left, reject } = Promise.withResolvers<never>()
    const leave = () => {
      link.tell(LEAVE, number)
      reject(endOfUnsent(signal))
    }
    signal.addEventListener('abort', leave, { once: true })
    if (onWaiting) this.#notes.set(number, onWaiting)
    try {
      const asked = link.ask(LEASE, { number, upstream: upstream.id, owner, patienceMs }).catch(() => {
        throw toStopping()
      })
      const lent = await Promise.race([asked, left])
      if ('error' in lent) throw toUpstreamError(lent.error)
      return this.#toLease(number, this.#toLeased(upstream, lent))
    } finally {
      signal.removeEventListener('abort', leave)
      this.#notes.delete(number)
      onWaiting?.(null)
    }
  }

  #toLease(number: number, upstream: Upstream): Lease {
    const link = this.#link
    let isOver = false
    return {
      upstream,
      heard: () => {
        const nowMs = performance.now()
        if (nowMs - (this.#heardMs.get(upstream.id) ?? Number.NEGATIVE_INFINITY) < HEARD_MS) return
        this.#heardMs.set(upstream.id, nowMs)
        link.tell(HEARD, number)
      },
      over(outcome) {
        if (isOver) return
        isOver = true
        link.tell(OVER, [number, outcome])
      },
    }
  }

  #toLeased(upstream: Upstream, { baseUrl, key }: { baseUrl: string | null; key: string | null }): Upstream {
    const known = this.#leased.get(upstream)
    if (known?.baseUrl === baseUrl && known.credential === key) return known
    const leased = { ...upstream, baseUrl, credential: key, secrets: key === null ? [] : [key] }
    this.#leased.set(upstream, leased)
    return leased
  }
}
