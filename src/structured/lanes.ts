/**
 * Several threads alike, for slow requests of several owners: each owner has one at a time, the one that the fewest others
 * have, and gives it back with its last request. So one that is slow by bad luck is not behind one that is by intent.
 */
import { type AskOptions, createThread, type NoReply, type Thread, type ThreadOptions } from '../threads/thread.ts'

interface Lane<Request, Reply extends object> {
  thread: Thread<Request, Reply>
  /** How many requests of each owner are not answered yet. */
  owners: Map<string, number>
}

export class Lanes<Request, Reply extends object> {
  readonly #lanes: Lane<Request, Reply>[]

  constructor(count: number, worker: string, options: ThreadOptions) {
    this.#lanes = Array.from({ length: count }, () => ({ thread: createThread(worker, options), owners: new Map() }))
  }

  async ask(request: Request, options: AskOptions): Promise<Reply | NoReply> {
    const { owner } = options
    const { thread, owners } = this.#laneOf(owner)
    owners.set(owner, (owners.get(owner) ?? 0) + 1)
    try {
      return await thread.ask(request, options)
    } finally {
      const left = (owners.get(owner) ?? 1) - 1
      if (left > 0) owners.set(owner, left)
      else owners.delete(owner)
    }
  }

  dismiss(owner: string): void {
    for (const { thread } of this.#lanes) thread.dismiss(owner)
  }

  close(): void {
    for (const { thread } of this.#lanes) thread.close()
  }

  #laneOf(owner: string): Lane<Request, Reply> {
    const [first, ...others] = this.#lanes
    if (!first) throw new Error('no lanes')
    let best = first
    for (const lane of [first, ...others]) {
      if (lane.owners.has(owner)) return lane
      if (lane.owners.size < best.owners.size) best = lane
    }
    return best
  }
}
