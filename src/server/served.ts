/**
 * What local servers say of the models that they have loaded, read again whenever one was started here, has come back, or was not asked
 * for a while, and laid over each snapshot. In memory alone: it is true for as long as they run so. Its reading never throws.
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

/** What one that answers is asked again after: somebody may have loaded another model there, or started it anew between two probes. */
const AGAIN_MS = 120_000

const NO_MODELS: ReadonlyMap<string, ListedModel> = new Map()

/** What is known of one upstream. */
interface Entry {
  place: string
  /** By the names that it has for them. */
  models: ReadonlyMap<string, ListedModel>
  /** Whether it was out of reach, or was not heard yet. */
  isDue: boolean
  readMs: number
  /** The question that is under way; a later one counts. */
  reading: object | null
}

export interface ServedDeps {
  log: Pick<Log, 'warn'>
  /** A clock that never steps, ms. */
  monotonicMs(): number
}

export class ServedFacts {
  /** Called when something else is said than before; whoever lays it over a snapshot sets it. */
  onChange: () => void = () => {}
  readonly #deps: ServedDeps
  readonly #entries = new Map<string, Entry>()
  /** Contradictions that the log has. */
  #told = new Set<string>()

  constructor(deps: ServedDeps) {
    this.#deps = deps
  }

  /** Lays what is known over a configuration, and forgets what it does not have any more, or has elsewhere. */
  over(configured: Snapshot): Snapshot {
    for (const [id, { place }] of this.#entries) {
      const upstream = configured.upstreams.get(id)
      if (upstream === undefined || toPlace(upstream) !== place) this.#entries.delete(id)
    }
    const served = new Map([...this.#entries].map(([id, { models }]) => [id, models]))
    const { snapshot, contradictions } = withServed(configured, served)
    this.#tell(contradictions)
    return snapshot
  }

  /** Takes what a probe has found of an upstream whose server is not started here. */
  probed(upstream: Upstream, { state }: Readiness): void {
    if (!upstream.local || isBuiltIn(upstream) || upstream.process !== null) return
    const entry = this.#entryOf(upstream)
    if (state !== 'ready') entry.isDue ||= state !== 'unknown' && state !== 'not_made'
    else if (entry.reading === null && (entry.isDue || this.#deps.monotonicMs() - entry.readMs >= AGAIN_MS))
      void this.#read(upstream, entry)
  }

  /** An upstream could not be reached: when it can be again, it may be another one. */
  unreached({ id }: Pick<Upstream, 'id'>): void {
    const entry = this.#entries.get(id)
    if (entry) entry.isDue = true
  }

  /**
   * A server that is started here can be asked.
   * @param upstream with its address and key.
   */
  started(upstream: Upstream, server: Launched): void {
    void this.#read(upstream, this.#entryOf(upstream), toSend(server))
  }

  /** What is known of a target at a local server; null for any other. */
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
    // It may have been out of reach meanwhile.
    entry.isDue ||= said === null
    // One that was started anew has at least nothing of before; any other may only have been too busy to say it again.
    const before = send === undefined ? entry.models : NO_MODELS
    const models = said === null ? before : new Map(said.map((one) => [one.id, one]))
    if (Bun.deepEquals(models, entry.models)) return
    entry.models = models
    this.onChange()
  }

  #tell(contradictions: readonly Contradiction[]): void {
    const now = new Map(contradictions.map((one) => [JSON.stringify(one), one]))
    for (const [text, one] of now)
      if (!this.#told.has(text))
        this.#deps.log.warn('model_facts_mismatch', 'a model server says otherwise than the catalogue', { ...one })
    this.#told = new Set(now.keys())
  }
}

/** One that is started here is elsewhere each time. */
const toPlace = ({ process, dialect, baseUrl }: Upstream) => process ?? `${dialect} ${baseUrl}`

/** How a server that was started here is asked. */
const toSend =
  (server: Launched): Send =>
  async (url, { body }) => {
    const { pathname, search } = new URL(url)
    const { status, text } = await ask(server, pathname + search, typeof body === 'string' ? body : undefined)
    return new Response(text, { status })
  }
