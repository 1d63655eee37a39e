/**
 * Checks the answers of hosted targets that promise to keep to a strict schema. An answer is delivered as it came; one that does not
 * meet the schema is marked. What cannot be checked, or not in time, counts as met. Wraps a dispatch, for `enforce.ts`.
 */
import type { PlannedCall } from '../accounting/call.ts'
import { Captured } from '../accounting/meter.ts'
import type { Answer, AnswerEvent, AnswerStream, Passage, Take } from '../domain/events.ts'
import type { Checker } from '../structured/checker.ts'
import { isFinal, withUnmet } from '../structured/plan.ts'
import type { Dispatch } from './attempt.ts'

/** Of one choice: a longer answer is not checked. */
const MAX_CHARS = 256 * 1024

/** @param schema as JSON. */
export async function verified(
  planned: PlannedCall,
  schema: string,
  dispatch: Dispatch,
  checker: Checker,
  shareId: string,
): Promise<Answer> {
  const { signal } = planned
  // Compiled while the model writes.
  const preparing = checker.prepare(shareId, schema, signal).then(
    (problem) => problem === null,
    () => false,
  )
  const isMet = async (text: string) => {
    if (!(await preparing)) return true
    const verdict = await checker.judge(shareId, text, schema, signal)
    // JSON in a code fence, or mended, is not what the client was promised.
    return verdict === 'slow' || (verdict.problem === null && verdict.json === text.trim())
  }
  const answer = await dispatch(planned)
  const verifier = new Verifier(isMet)
  verifier.note(answer.events)
  if (answer.rest) return { ...answer, rest: new VerifiedStream(answer.rest, verifier) }
  return { ...answer, events: await verifier.mark(answer.events) }
}

/** The choices of one answer, as far as they were read. */
class Verifier {
  readonly #isMet: (text: string) => Promise<boolean>
  readonly #texts = new Map<number, Captured>()
  /** Choices that need not meet the schema: they were cut short, are a refusal, or call a tool. */
  readonly #exempt = new Set<number>()

  constructor(isMet: (text: string) => Promise<boolean>) {
    this.#isMet = isMet
  }

  note(events: readonly AnswerEvent[]): void {
    for (const event of events) {
      if (event.kind === 'text') this.noteText(event.choice, event.text)
      else if ('choice' in event && isFinal([event])) this.#exempt.add(event.choice)
      // One without a word of text does not meet the schema either.
      else if (event.kind === 'finish') this.noteText(event.choice, '')
    }
  }

  noteText(choice: number, text: string): void {
    this.#texts.getOrInsertComputed(choice, () => new Captured(MAX_CHARS)).add(text)
  }

  /** Marks the last events of an answer, all of which was noted. */
  async mark(events: readonly AnswerEvent[]): Promise<readonly AnswerEvent[]> {
    if (events.at(-1)?.kind !== 'done') return events
    let marked = events
    for (const [choice, { text, more }] of this.#texts) {
      if (more > 0 || this.#exempt.has(choice) || (await this.#isMet(text))) continue
      marked = withUnmet(marked, choice)
    }
    return marked
  }
}

/** The same stream, checked before its last events are handed over. */
class VerifiedStream implements AnswerStream, Passage {
  /** Where what passes goes on. */
  #passage: Passage | null = null

  constructor(
    readonly inner: AnswerStream,
    readonly verifier: Verifier,
  ) {}

  pump(take: Take, passage?: Passage): Promise<void> {
    this.#passage = passage ?? null
    const noted: Take = (events) => {
      this.verifier.note(events)
      return events.at(-1)?.kind === 'done' ? this.verifier.mark(events).then(take) : take(events)
    }
    return this.inner.pump(noted, passage && this)
  }

  pass(frames: string, text: string): boolean | Promise<boolean> {
    this.verifier.noteText(0, text)
    if (this.#passage === null) throw new Error('nothing passes here')
    return this.#passage.pass(frames, text)
  }

  close(): void {
    this.inner.close()
  }
}
