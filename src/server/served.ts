/**
 * Facts that local servers report about their loaded models, applied to each snapshot; in memory only. Reading never
 * throws.
 */

import { type Contradiction, findServed, withServed } from '../catalog/served.ts'
import { isBuiltIn } from '../domain/dialects.ts'
import type { ListedModel, ServedFigures } from '../domain/model-server.ts'
import type { Snapshot, Target, Upstream } from '../domain/snapshot.ts'
import type { Log } from '../log.ts'
import type { Launched } from '../processes/child.ts'
import { ask } from '../processes/engine.ts'
import type { Readiness } from '../upstreams/backend.ts'
import type { Send } from '../upstreams/model-list.ts'
import { listModels } from './outward/questions.ts'

/** Interval of rereading. A server may have loaded another model, or restarted between two checks. */
const AGAIN_MS = 120_000

const NO_MODELS: ReadonlyMap<string, ListedModel> = new Map()

/** Facts of one upstream, as JSON for another process of this server. */
export interface ServedEntry {
  upstream: string
  place: string
  models: ListedModel[]
}

interface Entry {
  place: string
  /** By the upstream's own model names. */
  models: ReadonlyMap<string, ListedModel>
  isDue: boolean
  readMs: number
  /** The running request; only the latest counts. */
  reading: object | null
}

export interface ServedDeps {
  log: Pick<Log, 'warn'>
  /** Monotonic clock, ms. */
  monotonicMs(): number
}

export class ServedFacts {
  onChange: () => void = () => {}
  readonly #deps: ServedDeps
  readonly #entries = new Map<string, Entry>()
  #logged = new Set<string>()

  constructor(deps: ServedDeps) {
    this.#deps = deps
  }

  /** Applies known facts to a configuration, and forgets upstreams that are gone or moved. */
  over(configured: Snapshot): Snapshot {
    for (const [id, { place }] of this.#entries) {
      const upstream = configured.upstreams.get(id)
      if (upstream === undefined || toPlace(upstream) !== place) this.#entries.delete(id)
    }
    const served = new Map([...this.#entries].map(([id, { models }]) => [id, models]))
    const { snapshot, contradictions } = withServed(configured, served)
    this.#report(contradictions)
    return snapshot
  }

  probed(upstream: Upstream, { state }: Readiness): void {
    if (!upstream.local || isBuiltIn(upstream) || upstream.process !== null) return
    const entry = this.#entryOf(upstream)
    if (state !== 'ready') entry.isDue ||= state !== 'unknown' && state !== 'not_made'
    else if (entry.reading === null && (entry.isDue || this.#deps.monotonicMs() - entry.readMs >= AGAIN_MS))
      void this.#read(upstream, entry)
  }

  known = (): ServedEntry[] =>
    [...this.#entries].map(([upstream, { place, models }]) => ({ upstream, place, models: [...models.values()] }))

  /** Takes facts that another process has read. */
  take(known: readonly ServedEntry[]): void {
    this.#entries.clear()
    for (const { upstream, place, models } of known) {
      const named = new Map(models.map((one) => [one.id, one]))
      this.#entries.set(upstream, { place, models: named, isDue: false, readMs: 0, reading: null })
    }
    this.onChange()
  }

  /** Call if an upstream is unreachable. When it returns, it may serve another model. */
  unreached({ id }: Pick<Upstream, 'id'>): void {
    const entry = this.#entries.get(id)
    if (entry) entry.isDue = true
  }

  started(upstream: Upstream, server: Launched): void {
    void this.#read(upstream, this.#entryOf(upstream), toSend(server))
  }

  /** Null for targets that are not local. */
  figuresOf(target: Target, tokensPerSecond: number | null): ServedFigures | null {
    const { upstream } = target
    if (!upstream.local || isBuiltIn(upstream)) return null
    const found = findServed(target, this.#entries.get(upstream.id)?.models)
    return {
      context_length: found?.servedContext ?? null,
      quantization: found?.quantization ?? null,
      size_bytes: found?.sizeBytes ?? null,
      tokens_per_second: tokensPerSecond,
    }
  }

  #entryOf(upstream: Upstream): Entry {
    const place = toPlace(upstream)
    const known = this.#entries.get(upstream.id)
    if (known?.place === place) return known
    const entry = { place, models: NO_MODELS, isDue: true, readMs: 0, reading: null }
    this.#entries.set(upstream.id, entry)
    return entry
  }

  async #read(upstream: Upstream, entry: Entry, send?: Send): Promise<void> {
    const reading = {}
    entry.reading = reading
    entry.isDue = false
    const said = await listModels(upstream, send).catch(() => null)
    if (entry.reading !== reading || this.#entries.get(upstream.id) !== entry) return
    entry.reading = null
    entry.readMs = this.#deps.monotonicMs()
    // The server may have been unreachable in between.
    entry.isDue ||= said === null
    // A restarted server has none of its earlier models. Any other may have been too busy to reply.
    const before = send === undefined ? entry.models : NO_MODELS
    const models = said === null ? before : new Map(said.map((one) => [one.id, one]))
    if (Bun.deepEquals(models, entry.models)) return
    entry.models = models
    this.onChange()
  }

  #report(contradictions: readonly Contradiction[]): void {
    const now = new Map(contradictions.map((one) => [JSON.stringify(one), one]))
    for (const [text, one] of now)
      if (!this.#logged.has(text))
        this.#deps.log.warn('model_facts_mismatch', 'model server reports different facts than the catalog', { ...one })
    this.#logged = new Set(now.keys())
  }
}

/** A managed server has a new URL at each start. */
const toPlace = ({ process, dialect, baseUrl }: Upstream) => process ?? `${dialect} ${baseUrl}`

const toSend =
  (server: Launched): Send =>
  async (url, { body }) => {
    const { pathname, search } = new URL(url)
    const { status, text } = await ask(server, pathname + search, typeof body === 'string' ? body : undefined)
    return new Response(text, { status })
  }
