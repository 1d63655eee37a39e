/** Reranking as a client format. Responses are in Cohere's format for every upstream. */
import { resultOf } from '../../domain/endpoint-results.ts'
import { type Decision, GatewayError } from '../../domain/error.ts'
import type { AnswerEvent } from '../../domain/events.ts'
import { asObject } from '../../domain/json.ts'
import { RerankRequest } from '../../domain/rerank.ts'
import type { EndpointTask } from '../../domain/task.ts'
import type { Receipt } from '../../domain/usage.ts'
import { measurePrompt } from '../../tokens/estimate.ts'
import { openAiErrors } from '../chat/chat.ts'
import { checkModel, createBodyCheck, notAnObject, toExtras, toSchemaRefusal, toUser } from '../checked-body.ts'
import { rerankChecker } from '../checker.macro.ts' with { type: 'macro' }
import { type Format, type Identity, withCost } from '../format.ts'
import { type RerankBody, RerankSchema } from './schema.ts'

const checkBody = createBodyCheck<RerankBody>(rerankChecker(), (body) => {
  const given = asObject(body)
  if (given === null) return notAnObject('{"model": …, "query": …, "documents": […]}')
  return checkModel(given) ?? toSchemaRefusal(RerankSchema, given, 'Invalid rerank request.')
})

export const rerank = {
  ...openAiErrors,
  toTask(body) {
    const checked = checkBody(body)
    return checked instanceof GatewayError ? checked : toTask(checked)
  },
  whole: ({ body }: EndpointTask<RerankRequest>, identity, events, receipt) =>
    toRerankJson(body, identity, events, receipt),
  writer: () => {
    throw new Error('rankings are not streamed')
  },
} satisfies Format

const toText = (document: RerankBody['documents'][number]): string =>
  typeof document === 'string' ? document : document.text

function toTask(asked: RerankBody): Decision<EndpointTask<RerankRequest>> {
  const { model, query, documents, top_n, top_k, return_documents } = asked
  const top = top_n || top_k || null
  const body = new RerankRequest(
    ...[model, query, documents.map(toText), return_documents === true ? documents : null, top, toExtras(asked, OWN)],
  )
  return {
    ...{ endpoint: 'rerank', model, body, stream: false, cap: 0, user: toUser(asked) },
    ...measurePrompt(body),
    affinity: () => query,
  }
}

const OWN = ['model', 'query', 'documents', 'texts', 'top_n', 'top_k', 'return_documents', 'return_text', 'rank_fields']

/** Writes in pieces, because thousands of documents take a while. */
function* toRerankJson(
  { returned, top }: RerankRequest,
  { id, model }: Identity,
  events: readonly AnswerEvent[],
  { usage, costNanoUsd }: Receipt,
): Generator<string> {
  const { documents } = resultOf('rerank', events)
  const { prompt, completion, searchUnits = 0 } = usage
  yield `{"id":${JSON.stringify(id)},"model":${JSON.stringify(model)},"results":[`
  for (const [at, { index, score }] of documents.slice(0, top ?? documents.length).entries()) {
    const asked = returned?.[index]
    const document = returned ? { document: typeof asked === 'string' ? { text: asked } : asked } : {}
    yield `${at === 0 ? '' : ','}${JSON.stringify({ index, relevance_score: score, ...document })}`
  }
  const units = searchUnits > 0 ? { search_units: searchUnits } : { input_tokens: prompt }
  const tokens = { input_tokens: prompt, output_tokens: completion }
  const counts = { prompt_tokens: prompt, total_tokens: prompt + completion, search_units: searchUnits }
  yield `],"meta":${JSON.stringify({ billed_units: units, tokens })},"usage":${withCost(counts, costNanoUsd)}}`
}
