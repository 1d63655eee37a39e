/** How a route is asked with curl, ready to be copied: secrets and ids are put in their places by whoever copies it. Pure. */
import type { Route } from './routes.ts'
import { resolve, type Schema, type Schemas } from './schema.ts'

/** What fields that must be there are called, with something that suits them. */
const SAMPLES: Readonly<Record<string, unknown>> = {
  model: 'tollgate/demo',
  slug: 'tollgate/demo',
  messages: [{ role: 'user', content: 'Hello' }],
}

/** Where signing in leaves the session, and where what needs it finds it. */
const COOKIES = 'cookies.txt'

/** @param origin such as `https://gateway.example.com` */
export function toCurl({ method, path, proofs, parameters, body, answers }: Route, origin: string, schemas: Schemas) {
  const given = parameters.filter(({ place, isRequired }) => isRequired && place === 'query')
  const query = given.map(({ name }) => `${name}=${toPlaceholder(name)}`).join('&')
  const url = origin + path.replaceAll(/\{(\w+)\}/g, (_, name) => toPlaceholder(name)) + (query && `?${query}`)
  const [proof] = PROOFS.filter(({ of }) => proofs.includes(of))
  const isSigningIn = proofs.length === 0 && method === 'POST'
  const isChange = method !== 'GET'
  const answer = answers.find(({ status }) => status.startsWith('2'))
  const isFile = answer?.schema === null && answer.types.some((type) => !type.startsWith('text/'))
  const lines = [
    `curl${answer?.types.includes('text/event-stream') ? ' -N' : ''}${method === 'GET' || (method === 'POST' && body) ? '' : ` -X ${method}`} '${url}'`,
    ...(proof ? [proof.option] : []),
    ...(isSigningIn ? [`--cookie-jar ${COOKIES}`] : []),
    ...(isChange && (proof?.of === 'session' || isSigningIn) ? [`-H 'Origin: ${origin}'`] : []),
    ...(body ? ["-H 'Content-Type: application/json'", `-d '${JSON.stringify(toSample(body.schema, schemas))}'`] : []),
    ...(isFile ? ['-O'] : []),
  ]
  return [...(proof ? [proof.note] : []), lines.join(' \\\n  ')].join('\n')
}

const PROOFS = [
  {
    of: 'token',
    note: '# TOLLGATE_TOKEN: what `tollgate admin token create NAME` prints',
    option: '-H "Authorization: Bearer $TOLLGATE_TOKEN"',
  },
  { of: 'key', note: '# TOLLGATE_KEY: a key', option: '-H "Authorization: Bearer $TOLLGATE_KEY"' },
  {
    of: 'session',
    note: `# ${COOKIES}: written by the example of POST /admin/api/session`,
    option: `--cookie ${COOKIES}`,
  },
] as const

const toPlaceholder = (name: string) => encodeURIComponent(String(SAMPLES[name] ?? name.toUpperCase()))

/** The shortest that is taken; where nothing must be there, the first thing that may. */
export function toSample(schema: Schema, schemas: Schemas, name = ''): unknown {
  if (SAMPLES[name] !== undefined) return SAMPLES[name]
  const { const: only, enum: words, anyOf, type, items, properties, required, minimum } = resolve(schema, schemas)
  if (only !== undefined || words) return only ?? words?.[0]
  if (anyOf) return toSample(anyOf[0] ?? {}, schemas, name)
  const [first] = [type ?? 'object'].flat()
  if (first === 'array') return items ? [toSample(items, schemas, name)] : []
  if (first === 'string') return name === '' ? 'TEXT' : name.toUpperCase()
  if (first === 'boolean') return true
  if (first !== 'object') return minimum ?? 1
  const names = required ?? Object.keys(properties ?? {}).slice(0, 1)
  return Object.fromEntries(names.map((one) => [one, toSample(properties?.[one] ?? {}, schemas, one)]))
}
