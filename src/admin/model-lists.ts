/** Upstreams' model lists, cached for a few minutes: a form requests the same one several times. */
import { toRevision } from '../domain/changes.ts'
import type { ListedModel } from '../domain/model-server.ts'
import { AdminError } from './errors.ts'

const KEPT_MS = 5 * 60_000
const MAX_LISTS = 8
/** Longer lists aren't cached. */
const MAX_CHARS = 4 * 1024 ** 2
/** Concurrent calls to upstreams. */
const MAX_ASKED = 8

export class ModelLists {
  readonly #kept = new Map<string, { models: ListedModel[]; atMs: number }>()
  readonly #asked = new Map<string, Promise<ListedModel[]>>()

  constructor(readonly now: () => number) {}

  /**
   * @param of identifies the upstream with its credential; only its hash is stored
   * @param isFresh true to bypass the cache
   */
  async read(of: object, ask: () => Promise<ListedModel[]>, isFresh = false): Promise<ListedModel[]> {
    const name = toRevision(of)
    const kept = this.#kept.get(name)
    if (kept && !isFresh && this.now() - kept.atMs < KEPT_MS) return kept.models
    const asked = this.#asked.get(name)
    if (asked) return asked
    if (this.#asked.size >= MAX_ASKED)
      throw new AdminError(
        429,
        'too_many_lists',
        'The server is reading other model lists. Try again in a few seconds.',
      )
    const asking = ask().finally(() => this.#asked.delete(name))
    this.#asked.set(name, asking)
    const models = await asking
    this.#keep(name, models)
    return models
  }

  #keep(name: string, models: ListedModel[]): void {
    this.#kept.delete(name)
    if (JSON.stringify(models).length > MAX_CHARS) return
    this.#kept.set(name, { models, atMs: this.now() })
    const [oldest] = this.#kept.keys()
    if (this.#kept.size > MAX_LISTS && oldest !== undefined) this.#kept.delete(oldest)
  }
}
