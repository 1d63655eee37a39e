/** What the description of the API says of a route, beside what its schemas and its access say by themselves. */
import type { TSchema } from '@sinclair/typebox'
import type { ServiceFailure } from '../../domain/service-error.ts'
import type { AdminApi } from '../app.ts'

export interface RouteWords {
  /** What it does, in a line. */
  summary: string
  /** What else there is to know. */
  description?: string
  /** What it answers with; null where `operation` says it. */
  answer: TSchema | null
  /** Its body and its answers as OpenAPI has them, where they are no documents of this API. */
  operation?: { requestBody?: object; responses: Readonly<Record<string, unknown>> }
  /** Whether it edits one state, whose revision `If-Match` may name. */
  edits?: true
  /** Kinds of refusal, beside those that many routes have. */
  errors?: readonly ServiceFailure['kind'][]
  /** Kinds that this API has by itself, with their status. */
  ownErrors?: Readonly<Record<string, number>>
}

/** By `METHOD /path`, below `/admin/api`. */
export type Words = Readonly<Record<string, RouteWords>>

type Method = 'get' | 'post' | 'put' | 'patch' | 'delete'

/** From routes as the framework types them, each segment of a path within the one before it. */
type NameIn<Routes, Path extends string> = {
  [Part in keyof Routes & string]: Part extends Method
    ? `${Uppercase<Part>} ${Path}`
    : NameIn<Routes[Part], `${Path}/${Part}`>
}[keyof Routes & string]

/** Such as `GET /keys/:id`: whoever adds a route has to find words for it. */
export type RouteName = NameIn<AdminApi['~Routes']['admin']['api'], ''>
