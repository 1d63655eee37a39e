/**
 * In which order the targets of a request are tried (design 8): by priority, and within one by weighted rendezvous
 * hashing, so that weights hold over conversations and one conversation stays with one target and its prompt cache. What
 * is known to fail comes last or not at all. Pure: the same request on the same snapshot has the same order.
 */
import type { Key, Target } from '../store/snapshot.ts'
import type { ChatRequest, Message } from '../wire/request.ts'
import type { Standing } from './health.ts'

/** Sorts targets, best first, and leaves out those that are `out`. */
export function order(
  targets: readonly Target[],
  key: Pick<Key, 'id'>,
  body: Pick<ChatRequest, 'messages'>,
  standing: (target: Target) => Standing,
): Target[] {
  const [only] = targets
  if (only && targets.length === 1) return standing(only) === 'out' ? [] : [only]
  const seed = Bun.hash.xxHash32(toConversation(body.messages))
  return targets
    .map((target) => ({ target, standing: standing(target), score: scoreOf(target, key, seed) }))
    .filter((candidate) => candidate.standing !== 'out')
    .sort(
      (a, b) =>
        Number(a.standing === 'doubtful') - Number(b.standing === 'doubtful') ||
        a.target.priority - b.target.priority ||
        b.score - a.score,
    )
    .map(({ target }) => target)
}

/**
 * The highest score wins as often as the weights say, and a target that comes or goes moves only its own share of the
 * conversations (weighted rendezvous hashing, Schindelhauer and Schomaker 2005).
 */
function scoreOf({ upstream, upstreamModel, model, weight }: Target, { id }: Pick<Key, 'id'>, seed: number): number {
  const hash = Bun.hash.xxHash32(`${upstream.id}\n${upstreamModel}\n${model}\n${id}`, seed)
  return weight / -Math.log((hash + 0.5) / 2 ** 32)
}

/** A conversation is told from another by this much of how it begins. */
const MAX_CHARS = 16_384

/** What does not change as a conversation goes on: its instructions and its first question. */
function toConversation(messages: readonly Message[]): string {
  const asked = messages.findIndex(({ role }) => role === 'user')
  const beginning = asked === -1 ? messages : messages.slice(0, asked + 1)
  return beginning
    .filter(({ role }) => role === 'system' || role === 'developer' || role === 'user')
    .map((message) => `${message.role}\n${textOf(message).slice(0, MAX_CHARS)}\n`)
    .join('')
}

function textOf({ content }: Message): string {
  if (typeof content === 'string') return content
  return (content ?? []).map(toMark).join('\n')
}

type Part = Exclude<Message['content'], string | null | undefined>[number]

/** Of an image its end, in which two that begin alike differ. */
function toMark(part: Part): string {
  if (part.type === 'text') return part.text
  return part.type === 'image_url' ? part.image_url.url.slice(-256) : part.type
}
