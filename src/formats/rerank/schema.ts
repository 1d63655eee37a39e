/**
 * The request of Cohere's `POST /v2/rerank` (docs.cohere.com/reference/rerank), with what Jina's, Voyage's, and the first version's clients
 * send. Other fields are forwarded. Null means absent.
 */
import { type Static, type TSchema, Type } from '@sinclair/typebox'

const optional = <T extends TSchema>(schema: T) => Type.Optional(Type.Union([schema, Type.Null()]))

/** Cohere's limit. */
export const MAX_DOCUMENTS = 10_000

const Document = Type.Union([Type.String(), Type.Object({ text: Type.String() })])
/** Some clients send 0 to get all documents. */
const Top = () => optional(Type.Integer({ minimum: 0 }))

export const RerankSchema = Type.Object(
  {
    model: Type.String({ minLength: 1 }),
    query: Type.String({ minLength: 1 }),
    documents: Type.Array(Document, { minItems: 1, maxItems: MAX_DOCUMENTS }),
    top_n: Top(),
    /** Voyage's name. */
    top_k: Top(),
    return_documents: optional(Type.Boolean()),
    /** For reports. Not forwarded. */
    user: optional(Type.String()),
  },
  { maxProperties: 256 },
)

export type RerankBody = Static<typeof RerankSchema>
