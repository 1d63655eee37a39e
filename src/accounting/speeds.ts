/** How fast local servers write, as answers of late have shown, in memory: for lists of models. The last few answers count most. */
import type { Target } from '../domain/snapshot.ts'
import type { Call } from './call.ts'

/** Of one answer. */
export interface Speed {
  upstream: string
  upstreamModel: string
  tokensPerSecond: number
}

/** Reads the speeds off calls to local servers, where they have any. */
export const toSpeeds = (calls: readonly Pick<Call, 'target' | 'meter'>[]): readonly Speed[] =>
  // Of most requests no call goes to one.
  calls.some(isOfLocal) ? measureSpeeds(calls) : NONE

const NONE: readonly Speed[] = []
const isOfLocal = ({ target: { upstream } }: Pick<Call, 'target'>) => upstream.local

const measureSpeeds = (calls: readonly Pick<Call, 'target' | 'meter'>[]): Speed[] =>
  calls.flatMap(({ target: { upstream, upstreamModel }, meter: { tokensPerSecond } }) =>
    upstream.local && tokensPerSecond !== null ? { upstream: upstream.id, upstreamModel, tokensPerSecond } : [],
  )

/** Of what went before. */
const KEPT = 0.8

export class Speeds {
  readonly #known = new Map<string, number>()

  note(speeds: readonly Speed[]): void {
    for (const { upstream, upstreamModel, tokensPerSecond } of speeds) {
      const before = this.#known.get(toName(upstream, upstreamModel)) ?? tokensPerSecond
      this.#known.set(toName(upstream, upstreamModel), before * KEPT + tokensPerSecond * (1 - KEPT))
    }
  }

  /** Tokens a second, to a tenth; null where none were measured. */
  of = ({ upstream, upstreamModel }: Pick<Target, 'upstreamModel'> & { upstream: { id: string } }): number | null => {
    const found = this.#known.get(toName(upstream.id, upstreamModel))
    return found === undefined ? null : Math.round(found * 10) / 10
  }
}

const toName = (upstream: string, model: string) => `${upstream}\n${model}`
