/** API reference, from the server's OpenAPI documents. */
import { type ComponentChildren, createContext } from 'preact'
import { useContext, useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks'
import { query, setQuery, toHrefWith } from '../address/address.ts'
import { ask } from '../api/client.ts'
import { useLoaded } from '../api/loaded.ts'
import { may } from '../api/session.ts'
import { Page } from '../shell/page.tsx'
import { Button, Code, Icon } from '../ui/controls.tsx'
import { Fact } from '../ui/figure.tsx'
import { Empty, Problem } from '../ui/notice.tsx'
import { moveBetween, SearchFilter, searched } from '../ui/table.tsx'
import { SubPages } from '../ui/tabs.tsx'
import {
  type ApiDocument,
  type Field,
  findRoutes,
  type Group,
  type Route,
  type RouteAnswer,
  type Schema,
  type Schemas,
  toCurl,
  toGroups,
  toShapes,
} from './schema.ts'

export function ReferencePage() {
  const all = toDescribed()
  const open = all.find(({ name }) => name === query.value.get('document')) ?? all[0]
  return (
    <Page
      title="API reference"
      actions={
        open && (
          <a class="button plain" href={open.url} download={open.file} title="OpenAPI 3.1, for client generators">
            <Icon name="down" />
            Download JSON
          </a>
        )
      }
    >
      {all.length > 1 && open && (
        <SubPages label="APIs" pages={all.map((one) => [toPath(one), one.title])} open={toPath(open)} />
      )}
      {open && <Reading key={open.name} of={open} />}
    </Page>
  )
}

const toPath = ({ name }: Described) => `/reference?document=${name}`

function Reading({ of: described }: { of: Described }) {
  const { data: description, problem, reload } = useDescription(described)
  const first = useRef(query.value.get('route'))
  if (description === null) return problem && <Problem of={problem} retry={reload} />
  const id = query.value.get('route')
  const { groups, components } = description
  const route = groups.flatMap((group) => group.routes).find((one) => one.id === id)
  // A route opened by a link keeps the top of the page in view.
  const isChosen = first.current !== id
  if (isChosen) first.current = null
  return (
    <div class="reference" data-open={route ? 'route' : 'list'}>
      {!route && <Introduction of={description} isAdmin={described.name === 'admin'} />}
      <div class="reference-list">
        <div class="filters">
          <SearchFilter what="routes" />
        </div>
        <Routes of={findRoutes(groups, searched(), components.schemas)} openId={id} />
      </div>
      {route && <RoutePart of={route} schemas={components.schemas} isChosen={isChosen} />}
    </div>
  )
}

const Introduction = ({ of: { info, components }, isAdmin }: { of: Description; isAdmin: boolean }) => (
  <div class="drawer-part">
    <Prose text={info.description} />
    <dl class="facts">
      {Object.entries(components.securitySchemes).map(([name, { description }]) => (
        <Fact key={name} name={`Authentication: ${name}`}>
          <Prose text={description} />
        </Fact>
      ))}
    </dl>
    {isAdmin && (
      <p>
        All paths below start with <code>/admin/api</code>. Next to each is the minimum role.
      </p>
    )}
  </div>
)

/** Space kept above the open route. */
const ABOVE_PX = 120

function Routes({ of: groups, openId }: { of: readonly Group[]; openId: string | null }) {
  const at = useRef<HTMLElement>(null)
  useLayoutEffect(() => {
    const list = at.current?.parentElement
    const link = list?.querySelector('[aria-current]')
    // On wide screens the list scrolls separately.
    if (list && link) list.scrollTop += link.getBoundingClientRect().top - list.getBoundingClientRect().top - ABOVE_PX
  }, [openId])
  if (groups.length === 0) {
    return (
      <Empty title="No matching routes">
        <Button onClick={() => setQuery({ search: null })}>Show all routes</Button>
      </Empty>
    )
  }
  return (
    <nav ref={at} aria-label="Routes" onKeyDown={moveBetween('li')}>
      {groups.map(({ name, routes }) => (
        <section key={name}>
          <h2>{name}</h2>
          <ul>
            {routes.map((route) => (
              <Line key={route.id} of={route} isOpen={route.id === openId} />
            ))}
          </ul>
        </section>
      ))}
    </nav>
  )
}

const Line = ({ of: { id, method, path, role, summary }, isOpen }: { of: Route; isOpen: boolean }) => (
  <li>
    <a href={toHrefWith({ route: id })} aria-current={isOpen ? 'true' : undefined}>
      <span class="method">{method}</span>
      <code>{path.replace('/admin/api', '')}</code>
      <span class="what dim">
        <Inline text={summary} />
      </span>
      <span class="role dim">{role ?? ''}</span>
    </a>
  </li>
)

interface RouteProps {
  of: Route
  schemas: Schemas
  /** True if the user has just selected it: it gets the focus. */
  isChosen: boolean
}

function RoutePart({ of: route, schemas, isChosen }: RouteProps) {
  const at = useRef<HTMLHeadingElement>(null)
  useEffect(() => {
    if (!isChosen) return
    scrollTo(0, 0)
    at.current?.focus({ preventScroll: true })
  }, [route.id])
  const isGood = ({ status }: RouteAnswer) => status < '400'
  const [path, inQuery] = ['path', 'query'].map((place) => route.parameters.filter((one) => one.place === place))
  const refusals = route.answers.filter((answer) => !isGood(answer))
  return (
    <article class="sections">
      <header class="route-head">
        <p>
          <a href={toHrefWith({ route: null })}>All routes</a>
        </p>
        <h2 ref={at} tabIndex={-1}>
          <span class="method">{route.method}</span> <code class="path">{route.path}</code>
        </h2>
        <p class="lead">
          <Inline text={`${route.summary}.`} />
        </p>
        <Prose text={route.description} />
        <p class="dim">{toProof(route)}</p>
      </header>
      <Reader.Provider value={{ schemas, isAnswer: false }}>
        {path?.length ? <Part title="Path parameters" fields={path} /> : null}
        {inQuery?.length ? <Part title="Query parameters" fields={inQuery} /> : null}
        {route.body && (
          <Part title="Body" text={route.body.description}>
            <Inside of={route.body.schema} />
          </Part>
        )}
      </Reader.Provider>
      <Part title="Example">
        <Code text={toCurl(route, location.origin, schemas)} label={`Example of ${route.method} ${route.path}`} />
      </Part>
      <Reader.Provider value={{ schemas, isAnswer: true }}>
        {route.answers.filter(isGood).map((answer) => (
          <Answer key={answer.status} of={answer} />
        ))}
        {refusals.length > 0 && <Refusals of={refusals} />}
      </Reader.Provider>
    </article>
  )
}

interface PartProps {
  title: string
  text?: string
  fields?: readonly Field[]
  children?: ComponentChildren
}

const Part = ({ title, text = '', fields, children }: PartProps) => (
  <section class="drawer-part">
    <h3>{title}</h3>
    <Prose text={text} />
    {fields && <Fields of={fields} />}
    {children}
  </section>
)

const PROOF_WORDS: Readonly<Record<string, string>> = {
  session: 'a sign-in session',
  token: 'an admin API token',
  key: 'an API key',
}

const toProof = ({ proofs }: Route): string =>
  proofs.length === 0
    ? 'No authentication required.'
    : `Authentication: ${proofs.map((proof) => PROOF_WORDS[proof] ?? proof).join(' or ')}.`

const Answer = ({ of: { status, description, headers, types, schema } }: { of: RouteAnswer }) => (
  <Part title={`Response ${status}`} text={description}>
    {types.length > 0 && (
      <p>
        {schema ? 'Also as' : 'Content type:'} <code>{types.join(', ')}</code>.
      </p>
    )}
    {schema && <Inside of={schema} />}
    {headers.length > 0 && (
      <>
        <h4>Headers</h4>
        <Fields of={headers} />
      </>
    )}
  </Part>
)

/** Errors have at most two schemas: ours and the other APIs'. */
function Refusals({ of: answers }: { of: readonly RouteAnswer[] }) {
  const forms = new Map(answers.flatMap(({ schema }) => (schema ? [[schema.$ref, schema] as const] : [])))
  return (
    <Part title="Errors">
      <dl class="facts">
        {answers.map(({ status, description }) => (
          <Fact key={status} name={status}>
            <Inline text={description} />
          </Fact>
        ))}
      </dl>
      {[...forms.values()].map((schema) => (
        <details key={schema.$ref}>
          <summary>Error format{forms.size > 1 && `: ${schema.$ref?.split('/').at(-1)}`}</summary>
          <Inside of={schema} />
        </details>
      ))}
    </Part>
  )
}

/** Requests mark required fields, responses optional ones. */
const Reader = createContext<{ schemas: Schemas; isAnswer: boolean }>({ schemas: {}, isAnswer: false })

const Inside = ({ of: schema }: { of: Schema }) => (
  <>
    {toShapes(schema, useContext(Reader).schemas).map(({ title, fields }, index) => (
      <div key={index} class="shape">
        {title !== null && <p class="dim">{title}</p>}
        <Fields of={fields} />
      </div>
    ))}
  </>
)

const Fields = ({ of: fields }: { of: readonly Field[] }) => (
  <ul class="schema-fields">
    {fields.map((field) => (
      <FieldLine key={field.name} of={field} />
    ))}
  </ul>
)

function FieldLine({ of: field }: { of: Field }) {
  const { isAnswer } = useContext(Reader)
  // Rendered when expanded, since schemas can be deep.
  const [isOpen, setOpen] = useState(false)
  return (
    <li>
      <p class="schema-head">
        <code class="name">{field.name}</code>
        <span class="dim">{[field.type, ...field.bounds].join(', ')}</span>
        {field.isRequired && !isAnswer && <strong>required</strong>}
        {!field.isRequired && isAnswer && <span>optional</span>}
      </p>
      {field.description !== null && (
        <p>
          <Inline text={field.description} />
        </p>
      )}
      {field.words.length > 0 && (
        <p class="schema-words">
          {field.words.map((word) => (
            <code key={word}>{word}</code>
          ))}
        </p>
      )}
      {field.inside && (
        <details onToggle={({ currentTarget }) => setOpen(currentTarget.open)}>
          <summary>
            Fields<span class="unseen"> of {field.name}</span>
          </summary>
          {isOpen && <Inside of={field.inside} />}
        </details>
      )}
    </li>
  )
}

const Prose = ({ text }: { text: string }) => (
  <>
    {text
      .split('\n\n')
      .filter(Boolean)
      .map((paragraph) => (
        <p key={paragraph}>
          <Inline text={paragraph} />
        </p>
      ))}
  </>
)

const Inline = ({ text }: { text: string }) => (
  <>{text.split('`').map((part, index) => (index % 2 === 1 ? <code key={part + String(index)}>{part}</code> : part))}</>
)

interface Described {
  /** In the URL. */
  name: 'v1' | 'admin'
  title: string
  url: string
  /** Name of the download. */
  file: string
}

const V1: Described = { name: 'v1', title: 'Model API', url: '/v1/openapi.json', file: 'tollgate-v1.json' }
const ADMIN: Described = {
  name: 'admin',
  title: 'Admin API',
  url: '/admin/api/openapi.json',
  file: 'tollgate-admin.json',
}

/** Documents that the user may see. */
const toDescribed = (): readonly Described[] => (may('viewer') ? [V1, ADMIN] : [V1])

const useDescription = ({ name, url }: Described) =>
  useLoaded(`reference/${name}`, async () => {
    const document: ApiDocument = await ask(read(url))
    return { ...document, groups: toGroups(document) }
  })

type Description = NonNullable<ReturnType<typeof useDescription>['data']>

async function read(url: string) {
  const response = await fetch(url)
  const said = await response.json().catch(() => null)
  const { ok, status } = response
  return { data: ok ? said : null, error: ok ? null : { value: said }, status }
}
