/** An OpenAPI document as its page shows it: routes in groups, found by words. Pure. */
import { hasWords } from '../figures/search.ts'
import { type Field, resolve, type Schema, type Schemas, toField, toShapes } from './schema.ts'

type Content = Readonly<Record<string, { schema?: Schema }>>

interface Answer {
  description: string
  headers?: Readonly<Record<string, { description?: string; schema: Schema }>>
  content?: Content
}

interface Operation {
  operationId: string
  summary?: string
  description?: string
  tags?: readonly string[]
  /** Each by the name of a way to prove who asks; none: nobody has to. */
  security?: readonly Readonly<Record<string, readonly string[]>>[]
  'x-least-role'?: string | null
  parameters?: readonly { name: string; in: string; required?: boolean; description?: string; schema: Schema }[]
  requestBody?: { description?: string; content: Content }
  responses: Readonly<Record<string, Answer>>
}

export interface ApiDocument {
  info: { title: string; description: string }
  security?: Operation['security']
  tags: readonly { name: string }[]
  paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>
  components: {
    schemas: Schemas
    securitySchemes: Readonly<Record<string, { description: string }>>
  }
}

export interface Route {
  /** Its `operationId`, in the address. */
  id: string
  method: string
  path: string
  group: string
  summary: string
  description: string
  /** The least that it is for; null where nobody has to sign in, or the document knows no roles. */
  role: string | null
  /** Ways to prove who asks, any of which will do. */
  proofs: readonly string[]
  parameters: readonly (Field & { place: string })[]
  body: { description: string; schema: Schema } | null
  answers: readonly RouteAnswer[]
}

export interface RouteAnswer {
  status: string
  description: string
  headers: readonly Field[]
  /** Such as `text/event-stream`, beside or instead of JSON. */
  types: readonly string[]
  schema: Schema | null
}

export interface Group {
  name: string
  routes: readonly Route[]
}

export function toGroups(document: ApiDocument): Group[] {
  const routes = Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => toRoute(document, method, path, operation)),
  )
  return document.tags.map(({ name }) => ({ name, routes: routes.filter(({ group }) => group === name) }))
}

function toRoute(document: ApiDocument, method: string, path: string, operation: Operation): Route {
  const { schemas } = document.components
  const { parameters = [], requestBody, security = document.security ?? [] } = operation
  const body = requestBody?.content[JSON_TYPE]?.schema
  return {
    ...{ id: operation.operationId, method: method.toUpperCase(), path, group: operation.tags?.[0] ?? '' },
    ...{ summary: operation.summary ?? '', description: operation.description ?? '' },
    role: operation['x-least-role'] ?? null,
    proofs: security.flatMap((one) => Object.keys(one)),
    parameters: parameters.map(({ name, in: place, required = false, description, schema }) => ({
      ...toField(name, schema, required, schemas),
      ...{ description: description ?? null, place },
    })),
    body: body ? { description: requestBody?.description ?? '', schema: body } : null,
    answers: Object.entries(operation.responses).map(([status, answer]) => toAnswer(status, answer, schemas)),
  }
}

const JSON_TYPE = 'application/json'

const toAnswer = (status: string, { description, headers = {}, content = {} }: Answer, schemas: Schemas) => ({
  ...{ status, description, schema: content[JSON_TYPE]?.schema ?? null },
  headers: Object.entries(headers).map(([name, { description, schema }]) => ({
    ...toField(name, schema, true, schemas),
    description: description ?? null,
  })),
  types: Object.keys(content).filter((type) => type !== JSON_TYPE),
})

/** Those that have all of these words: in what they are called and do, or in what they take. */
export function findRoutes(groups: readonly Group[], search: string, schemas: Schemas): Group[] {
  return groups
    .map(({ name, routes }) => ({ name, routes: routes.filter((route) => hasWords(toTexts(route, schemas), search)) }))
    .filter(({ routes }) => routes.length > 0)
}

const toTexts = ({ method, path, group, summary, role, parameters, body }: Route, schemas: Schemas) => [
  ...[method, path, group, summary, role ?? ''],
  ...parameters.map(({ name }) => name),
  ...(body
    ? toShapes(resolve(body.schema, schemas), schemas).flatMap(({ fields }) => fields.map(({ name }) => name))
    : []),
]
