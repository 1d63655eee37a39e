/**
 * In which order the targets of a request are tried: by priority, and within one by weighted rendezvous
 * hashing, so that weights hold over conversations and one conversation stays with one target and its prompt cache. What
 * is known to fail comes last or not at all. Pure: the same request on the same snapshot has the same order.
 */

import type { Key, Target } from '../domain/snapshot.ts'
import type { Standing } from '../health/request.ts'

/**
 * Sorts targets, best first, and leaves out those that are unavailable.
 * @param affinity what the requests of one conversation have in common; asked for only where there is a choice.
 */
export function order(
  targets: readonly Target[],
  key: Pick<Key, 'id'>,
  affinity: () => string,
  standing: (target: Target) => Standing,
): Target[] {
  const candidates: Candidate[] = []
  for (const target of targets) {
    const found = standing(target)
    if (found !== 'unavailable') candidates.push({ target, isDegraded: found === 'degraded', score: 0 })
  }
  if (candidates.length > 1) {
    const conversation = Bun.hash.xxHash32(`${key.id}\n${affinity()}`)
    for (const candidate of candidates) candidate.score = scoreOf(candidate.target, conversation)
    candidates.sort(compare)
  }
  return candidates.map(({ target }) => target)
}

interface Candidate {
  target: Target
  isDegraded: boolean
  score: number
}

const compare = (a: Candidate, b: Candidate) =>
  Number(a.isDegraded) - Number(b.isDegraded) || a.target.priority - b.target.priority || b.score - a.score

/**
 * The highest score wins as often as the weights say, and a target that comes or goes moves only its own share of the
 * conversations (weighted rendezvous hashing, Schindelhauer and Schomaker 2005).
 */
function scoreOf(target: Target, conversation: number): number {
  return target.weight / -Math.log((mix(conversation ^ nameOf(target)) + 0.5) / 2 ** 32)
}

/** Spreads 32 bits over 32 bits (the finalizer of MurmurHash3). */
function mix(bits: number): number {
  let mixed = Math.imul(bits ^ (bits >>> 16), 0x85ebca6b)
  mixed = Math.imul(mixed ^ (mixed >>> 13), 0xc2b2ae35)
  return (mixed ^ (mixed >>> 16)) >>> 0
}

/** Hashes of what a target is called, for as long as its snapshot lives. */
const names = new WeakMap<Target, number>()

function nameOf(target: Target): number {
  const known = names.get(target)
  if (known !== undefined) return known
  const name = Bun.hash.xxHash32(`${target.upstream.id}\n${target.upstreamModel}\n${target.model}`)
  names.set(target, name)
  return name
}
