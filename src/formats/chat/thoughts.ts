/**
 * What is left of a model's thoughts for a client that has refused them, in whichever words: no words, and of what its vendor must see again
 * only what has none. What was signed over words that are left out is of no use to anybody. Pure.
 */
import type { AnswerEvent } from '../../domain/events.ts'
import { asText } from '../../domain/json.ts'

export class RefusedThoughts {
  /** The choices that have lost words. */
  readonly #cut = new Set<number>()

  take(events: readonly AnswerEvent[]): readonly AnswerEvent[] {
    return events.flatMap((event) => (event.kind === 'reasoning' ? this.#withoutWords(event) : event))
  }

  #withoutWords({ choice, text, details = [] }: AnswerEvent & { kind: 'reasoning' }): AnswerEvent[] {
    if (text !== '') this.#cut.add(choice)
    const kept = details.filter((each) => isWordless(each) && (isEncrypted(each) || !this.#cut.has(choice)))
    return kept.length === 0 ? [] : [{ kind: 'reasoning', choice, text: '', details: kept }]
  }
}

const field = (detail: object, name: string) => asText(Reflect.get(detail, name))

const isEncrypted = (detail: object) => field(detail, 'type') === 'reasoning.encrypted'

const isWordless = (detail: object) => field(detail, 'text') === '' && field(detail, 'summary') === ''
