/** Events of a realtime session: which ones clients may send, and model names, which differ between the catalog and the provider. */
import { type Decision, GatewayError } from '../domain/error.ts'
import { mintId } from '../domain/id.ts'
import { asList, asObject, asText, type JsonObject, tryJson } from '../domain/json.ts'
import type { CatalogModel, Key, Snapshot, Target } from '../domain/snapshot.ts'
import { visibleModel } from '../routing/access.ts'

/** Event types that clients may send; the first group may be charged. */
const CHARGED: ReadonlySet<unknown> = new Set([
  ...['response.create', 'input_audio_buffer.append', 'input_audio_buffer.commit'],
])
const OTHERS: ReadonlySet<unknown> = new Set([
  ...['session.update', 'transcription_session.update', 'input_audio_buffer.clear', 'output_audio_buffer.clear'],
  ...['conversation.item.create', 'conversation.item.retrieve', 'conversation.item.truncate'],
  ...['conversation.item.delete', 'response.cancel'],
])

export const isCharged = ({ type }: JsonObject): boolean => CHARGED.has(type)

export class SessionModels {
  /** Catalog names of transcription models, by the upstream's name. */
  readonly #names = new Map<string, string>()

  constructor(
    private readonly live: { readonly snapshot: Snapshot },
    private readonly model: CatalogModel,
    private readonly target: Target,
  ) {
    this.#names.set(target.upstreamModel, model.facts.id)
  }

  /** Returns the client's event with the upstream's model names, or why it may not be sent. */
  read(text: string, key: Key): Decision<JsonObject> {
    const event = asObject(tryJson(text))
    if (event === null) return invalid('An event is a JSON object with a `type`.', null)
    const isKnown = CHARGED.has(event.type) || OTHERS.has(event.type)
    const wrong = isKnown ? this.#adapt(event, key) : `Unknown event type: '${asText(event.type).slice(0, 100)}'.`
    return wrong === null ? event : invalid(wrong, asText(event.event_id) || null)
  }

  /** Replaces the upstream's model names with the catalog's. */
  toOwn(session: JsonObject): JsonObject {
    if ('model' in session) session.model = this.model.facts.id
    for (const transcription of transcriptionsOf(session)) {
      const name = this.#names.get(asText(transcription.model))
      if (name !== undefined) transcription.model = name
    }
    return session
  }

  #adapt(event: JsonObject, key: Key): string | null {
    for (const settings of [asObject(event.session), asObject(event.response)]) {
      const wrong = settings && this.#adaptSettings(settings, key)
      if (wrong) return wrong
    }
    return null
  }

  #adaptSettings(settings: JsonObject, key: Key): string | null {
    if (settings.model !== undefined) {
      const named = visibleModel(this.live.snapshot, key, asText(settings.model))
      if (named?.model.facts.id !== this.model.facts.id) return 'The model of a session is chosen in its URL.'
      settings.model = this.target.upstreamModel
    }
    if (settings.prompt != null) return 'Stored prompts belong to the account of the provider. Send `instructions`.'
    const foreign = asList(settings.tools).find((tool) => asObject(tool)?.type !== 'function')
    if (foreign !== undefined) return 'Only tools of type `function` are supported.'
    for (const transcription of transcriptionsOf(settings)) {
      const named = asText(transcription.model)
      if (named === '') continue
      const known = this.#toUpstreamModel(named, key)
      if (known === null) return `The model \`${named.slice(0, 100)}\` is not available to this key for transcription.`
      this.#names.set(known, named)
      transcription.model = known
    }
    return null
  }

  /** Also finds other models of the same upstream. */
  #toUpstreamModel(asked: string, key: Key): string | null {
    const found = visibleModel(this.live.snapshot, key, asked)
    return found?.targets.find(({ upstream }) => upstream.id === this.target.upstream.id)?.upstreamModel ?? null
  }
}

function transcriptionsOf(settings: JsonObject): JsonObject[] {
  const input = asObject(asObject(settings.audio)?.input)
  return [input?.transcription, settings.input_audio_transcription].map(asObject).filter((each) => each !== null)
}

export type Refusal = GatewayError & { eventId?: string | null }

export const invalid = (message: string, eventId: string | null): Refusal =>
  Object.assign(new GatewayError('invalid_request', message), { eventId })

export function toErrorEvent({ type, code, message, param, eventId = null }: Refusal, nowMs: number): string {
  const error = { type, code, message, param, event_id: eventId }
  return JSON.stringify({ type: 'error', event_id: `event_${mintId(nowMs)}`, error })
}
