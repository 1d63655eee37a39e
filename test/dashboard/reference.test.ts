/** The descriptions of both APIs on their page: routes, fields, and examples that a server accepts. */
import { beforeAll, describe, expect, test } from 'bun:test'
import { toAdminDocument } from '../../src/admin/openapi-document.ts'
import {
  type ApiDocument,
  findRoutes,
  type Route,
  type Schema,
  toCurl,
  toField,
  toGroups,
  toSample,
  toShapes,
  toType,
} from '../../src/dashboard/reference/schema.ts'
import { toPublicDocument } from '../../src/http/openapi/document.ts'
import { createFixture } from '../admin/fixture.ts'
import { toProblems } from '../support/described.ts'
import { forAllTests } from '../support/lifetime.ts'

let admin: ApiDocument
// The served document is JSON, so undefined values are missing here, too.
const v1: ApiDocument = JSON.parse(JSON.stringify(toPublicDocument()))
const fixture = forAllTests(createFixture)
beforeAll(() => {
  admin = JSON.parse(JSON.stringify(toAdminDocument(fixture.admin, 'tollgate')))
})

const routesOf = (document: ApiDocument) => toGroups(document).flatMap(({ routes }) => routes)
const routeOf = (document: ApiDocument, id: string): Route => {
  const route = routesOf(document).find((one) => one.id === id)
  if (!route) throw new Error(`there is no ${id}`)
  return route
}

test('every route is in one group, with its least role and its authentication', () => {
  expect(routesOf(admin).length).toBe(fixture.admin.routes.length)
  expect(new Set(routesOf(admin).map(({ id }) => id)).size).toBe(fixture.admin.routes.length)
  const { method, path, group, role, proofs } = routeOf(admin, 'patchAdminApiKeysById')
  expect([method, path, group, role, proofs]).toEqual([
    ...['PATCH', '/admin/api/keys/{id}', 'keys', 'editor', ['session', 'token']],
  ])
  expect(routeOf(admin, 'postAdminApiTokens').proofs).toEqual(['session'])
  expect(routesOf(v1).map(({ id, proofs }) => [id, proofs.length])).toContainEqual(['getHealth', 0])
  expect(routeOf(v1, 'createChatCompletion').proofs).toEqual(['key'])
})

test('routes are found by words of their paths, summaries, and fields', () => {
  const find = (search: string) =>
    findRoutes(toGroups(admin), search, admin.components.schemas).flatMap(({ routes }) => routes.map(({ id }) => id))
  expect(find('post BACKUPS')).toEqual(['postAdminApiBackups'])
  expect(find('discard_edits')).toEqual(['postAdminApiCatalogPlan', 'postAdminApiCatalogApply'])
  expect(find('nothing of the kind')).toEqual([])
  expect(find('').length).toBe(fixture.admin.routes.length)
})

describe('a field', () => {
  const read = (schema: Schema) => toField('x', schema, true, {})

  test('shows its type in words', () => {
    expect(toType({ type: ['integer', 'null'] })).toBe('integer or null')
    expect(toType({ type: 'array', items: { type: 'string' } })).toBe('array of strings')
    expect(toType({ type: 'array', items: { anyOf: [{ type: 'string' }, { $ref: '#/x/Key' }] } })).toBe(
      'array of (strings or Key)',
    )
    expect(toType({ type: 'object', patternProperties: { '^(.*)$': { type: 'number' } } })).toBe('numbers by name')
    expect([toType({}), toType({ const: 'user', type: 'string' })]).toEqual(['any', '"user"'])
  })

  test('shows its bounds and values, including those of list items', () => {
    expect(read({ type: 'number', minimum: 0, maximum: 2 }).bounds).toEqual(['0 to 2'])
    expect(read({ type: 'integer', minimum: -(2 ** 63), maximum: 2 ** 63 }).bounds).toEqual([])
    expect(read({ type: 'array', minItems: 1, items: { type: 'string', maxLength: 64 } }).bounds).toEqual([
      ...['at least 1 item', 'at most 64 characters'],
    ])
    expect(read({ type: 'string', default: 'a', pattern: '^a$' }).bounds).toEqual(['default "a"', 'matches ^a$'])
    expect(read({ anyOf: [{ type: 'string', enum: ['a', 'b', null] }, { type: 'null' }] }).words).toEqual(['a', 'b'])
  })

  test('shows nested fields, in each variant', () => {
    const form = (kind: string): Schema => ({
      type: 'object',
      required: ['kind'],
      properties: { kind: { const: kind, type: 'string' }, [kind]: { type: 'string' } },
    })
    const schemas = { A: form('a'), B: form('b') }
    const list: Schema = { type: 'array', items: { anyOf: [{ $ref: '#/x/A' }, { $ref: '#/x/B' }] } }
    expect(toField('x', list, false, schemas).inside).toBe(list)
    expect(toShapes(list, schemas).map(({ title, fields }) => [title, fields.map(({ name }) => name)])).toEqual([
      ['kind "a"', ['kind', 'a']],
      ['kind "b"', ['kind', 'b']],
    ])
    expect(read({ type: 'string' }).inside).toBeNull()
  })
})

describe('an example', () => {
  const curlOf = (document: ApiDocument, id: string) =>
    toCurl(routeOf(document, id), 'http://localhost:4000', document.components.schemas)

  test('has a body that the server accepts', () => {
    const { schemas } = admin.components
    for (const { method, path, body } of fixture.admin.routes) {
      if (body === null) continue
      const sample = toSample(JSON.parse(JSON.stringify(body)), schemas)
      expect({ [`${method} ${path}`]: toProblems(body, sample) }).toEqual({ [`${method} ${path}`]: [] })
    }
    expect(toSample(routeOf(v1, 'createChatCompletion').body?.schema ?? {}, v1.components.schemas)).toEqual({
      model: 'tollgate/demo',
      messages: [{ role: 'user', content: 'Hello' }],
    })
  })

  test('authenticates as a script would', () => {
    expect(curlOf(v1, 'listModels')).toBe(
      '# TOLLGATE_KEY: an API key\ncurl \'http://localhost:4000/v1/models\' \\\n  -H "Authorization: Bearer $TOLLGATE_KEY"',
    )
    expect(curlOf(admin, 'getAdminApiKeys')).toContain('Bearer $TOLLGATE_TOKEN')
    const [signIn, owners] = [curlOf(admin, 'postAdminApiSession'), curlOf(admin, 'postAdminApiTokens')]
    expect(signIn).toContain("--cookie-jar cookies.txt \\\n  -H 'Origin: http://localhost:4000'")
    expect(owners).toContain("--cookie cookies.txt \\\n  -H 'Origin: http://localhost:4000'")
    expect(curlOf(v1, 'getHealth')).toBe("curl 'http://localhost:4000/healthz'")
  })

  test('reads a stream as it arrives, and writes a file', () => {
    expect(curlOf(admin, 'getAdminApiRequestsLive')).toContain('curl -N ')
    expect(curlOf(admin, 'getAdminApiBackupsByName')).toEndWith('\\\n  -O')
    expect(curlOf(admin, 'getAdminApiModelsBySlug')).toContain("/models/tollgate%2Fdemo'")
  })
})
