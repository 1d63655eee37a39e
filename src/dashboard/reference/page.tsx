/** What the APIs of this server take and answer, route by route, as their descriptions say: for whoever writes a program that asks them. */
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks'
import { query, setQuery, toHref, toHrefWith } from '../address/address.ts'
import { ask } from '../api/client.ts'
import { useLoaded } from '../api/loaded.ts'
import { may } from '../api/session.ts'
import { Page } from '../shell/page.tsx'
import { Button, Code, Icon } from '../ui/controls.tsx'
import { Empty, Problem } from '../ui/notice.tsx'
import { moveBetween, SearchFilter } from '../ui/table.tsx'
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
          <a class="button plain" href={open.url} download={open.file} title="OpenAPI 3.1: tools make clients of it">
            <Icon name="down" />
            Download as JSON
          </a>
        )
      }
    >
      {all.length > 1 && (
        <nav class="sub-pages" aria-label="APIs">
          {all.map(({ name, title }) => (
            <a
              key={name}
              href={toHref(`/reference?document=${name}`)}
              aria-current={name === open?.name ? 'page' : undefined}
            >
              {title}
            </a>
          ))}
        </nav>
      )}
      {open && <Reading key={open.name} of={open} />}
    </Page>
  )
}

function Reading({ of: described }: { of: Described }) {
  const { data: description, problem, reload } = useDescription(described)
  const first = useRef(query.value.get('route'))
  if (description === null) return problem && <Problem of={problem} retry={reload} />
  const search = query.value.get('search') ?? ''
  const id = query.value.get('route')
  const { groups, components } = description
  const route = groups.flatMap((group) => group.routes).find((one) => one.id === id)
  // What somebody has come to by a link is read from the top of the page.
  const isChosen = first.current !== id
  if (isChosen) first.current = null
  return (
    <div class="reference" data-open={route ? 'route' : 'list'}>
      {!route && <Introduction of={description} isAdmin={described.name === 'admin'} />}
      <div class="reference-list">
        <div class="filters">
          <SearchFilter what="routes" />
        </div>
        <Routes of={findRoutes(groups, search, components.schemas)} openId={id} />
      </div>
      {route && <RoutePart of={route} description={description} isChosen={isChosen} />}
    </div>
  )
}

const Introduction = ({ of: { info, components }, isAdmin }: { of: Description; isAdmin: boolean }) => (
  <div class="drawer-part">
    <Prose text={info.description} />
    <dl class="facts">
      {Object.entries(components.securitySchemes).map(([name, { description }]) => [
        <dt key={name}>With a {name}</dt>,
        <dd key={`${name} is`}>
          <Prose text={description} />
        </dd>,
      ])}
    </dl>
    {isAdmin && (
      <p>
        All paths below begin with <code>/admin/api</code>. Beside each is the least role that it is for.
      </p>
    )}
  </div>
)

/** What still stands above the route that is open. */
const ABOVE_PX = 120

function Routes({ of: groups, openId }: { of: readonly Group[]; openId: string | null }) {
  const at = useRef<HTMLElement>(null)
  useLayoutEffect(() => {
    const list = at.current?.parentElement
    const link = list?.querySelector('[aria-current]')
    // Where the list has a scroll of its own.
    if (list && link) list.scrollTop += link.getBoundingClientRect().top - list.getBoundingClientRect().top - ABOVE_PX
  }, [openId])
  if (groups.length === 0) {
    return (
      <Empty title="No route has these words">
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
  description: Description
  /** Whether somebody has just chosen it: they go on reading there. */
  isChosen: boolean
}

function RoutePart({ of: route, description, isChosen }: RouteProps) {
  const at = useRef<HTMLHeadingElement>(null)
  useEffect(() => {
    if (!isChosen) return
    scrollTo(0, 0)
    at.current?.focus({ preventScroll: true })
  }, [route.id])
  const { schemas } = description.components
  const isGood = ({ status }: RouteAnswer) => status < '400'
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
      {(['path', 'query'] as const).map((place) => (
        <Parameters key={place} of={route.parameters.filter((one) => one.place === place)} {...{ place, schemas }} />
      ))}
      {route.body && (
        <section class="drawer-part">
          <h3>Body</h3>
          <Prose text={route.body.description} />
          <Inside of={route.body.schema} schemas={schemas} />
        </section>
      )}
      <section class="drawer-part">
        <h3>Example</h3>
        <Code text={toCurl(route, location.origin, schemas)} label={`Example of ${route.method} ${route.path}`} />
      </section>
      {route.answers.filter(isGood).map((answer) => (
        <Answer key={answer.status} of={answer} schemas={schemas} />
      ))}
      <Refusals of={route.answers.filter((answer) => !isGood(answer))} schemas={schemas} />
    </article>
  )
}

const PROOF_WORDS: Readonly<Record<string, string>> = {
  session: 'the session of somebody who has signed in',
  token: 'a token for scripts',
  key: 'a key',
}

const toProof = ({ proofs }: Route): string =>
  proofs.length === 0
    ? 'It asks for no key and no session.'
    : `It takes ${proofs.map((proof) => PROOF_WORDS[proof] ?? proof).join(', or ')}.`

const PLACES = { path: 'In the path', query: 'In the query' } as const

const Parameters = ({
  of: parameters,
  place,
  schemas,
}: {
  of: Route['parameters']
  place: keyof typeof PLACES
  schemas: Schemas
}) =>
  parameters.length === 0 ? null : (
    <section class="drawer-part">
      <h3>{PLACES[place]}</h3>
      <Fields of={parameters} schemas={schemas} />
    </section>
  )

const Answer = ({
  of: { status, description, headers, types, schema },
  schemas,
}: {
  of: RouteAnswer
  schemas: Schemas
}) => (
  <section class="drawer-part">
    <h3>Answer {status}</h3>
    <Prose text={description} />
    {types.length > 0 && (
      <p>
        {schema ? 'Also' : 'It is'} <code>{types.join(', ')}</code>.
      </p>
    )}
    {schema && <Inside of={schema} schemas={schemas} isAnswer />}
    {headers.length > 0 && (
      <>
        <h4>Its headers</h4>
        <Fields of={headers} schemas={schemas} isAnswer />
      </>
    )}
  </section>
)

/** They have one form, or at most one of ours and one as other APIs have it. */
function Refusals({ of: answers, schemas }: { of: readonly RouteAnswer[]; schemas: Schemas }) {
  const forms = new Map(answers.flatMap(({ schema }) => (schema ? [[schema.$ref, schema] as const] : [])))
  if (answers.length === 0) return null
  return (
    <section class="drawer-part">
      <h3>Refusals</h3>
      <dl class="facts">
        {answers.map(({ status, description }) => [
          <dt key={status}>{status}</dt>,
          <dd key={`${status} is`}>
            <Inline text={description} />
          </dd>,
        ])}
      </dl>
      {[...forms.values()].map((schema) => (
        <details key={schema.$ref}>
          <summary>What a refusal looks like{forms.size > 1 && `: ${schema.$ref?.split('/').at(-1)}`}</summary>
          <Inside of={schema} schemas={schemas} isAnswer />
        </details>
      ))}
    </section>
  )
}

interface Told {
  schemas: Schemas
  /** Of what is sent, it is told which fields must be there; of what is answered, which may be missing. */
  isAnswer?: boolean
}

export const Inside = ({ of: schema, ...told }: Told & { of: Schema }) => (
  <>
    {toShapes(schema, told.schemas).map(({ title, fields }, index) => (
      <div key={index} class="shape">
        {title !== null && <p class="dim">{title}</p>}
        <Fields of={fields} {...told} />
      </div>
    ))}
  </>
)

export const Fields = ({ of: fields, ...told }: Told & { of: readonly Field[] }) => (
  <ul class="schema-fields">
    {fields.map((field) => (
      <FieldLine key={field.name} of={field} {...told} />
    ))}
  </ul>
)

const FieldLine = ({ of: field, ...told }: Told & { of: Field }) => (
  <li>
    <p class="schema-head">
      <code class="name">{field.name}</code>
      <span class="dim">{[field.type, ...field.bounds].join(', ')}</span>
      {field.isRequired && !told.isAnswer && <strong>required</strong>}
      {!field.isRequired && told.isAnswer && <span>may be missing</span>}
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
    {field.inside && <Folded name={field.name} of={field.inside} {...told} />}
  </li>
)

/** Drawn once it is unfolded: descriptions may be deep. */
function Folded({ name, ...inside }: Told & { name: string; of: Schema }) {
  const [isOpen, setOpen] = useState(false)
  return (
    <details onToggle={({ currentTarget }) => setOpen(currentTarget.open)}>
      <summary>
        Fields<span class="unseen"> of {name}</span>
      </summary>
      {isOpen && <Inside {...inside} />}
    </details>
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

export interface Described {
  /** In the address. */
  name: 'v1' | 'admin'
  title: string
  url: string
  /** What it is called once it is downloaded. */
  file: string
}

const V1: Described = { name: 'v1', title: 'For models', url: '/v1/openapi.json', file: 'tollgate-v1.json' }
const ADMIN: Described = {
  name: 'admin',
  title: 'For administration',
  url: '/admin/api/openapi.json',
  file: 'tollgate-admin.json',
}

/** Those that whoever has signed in may see. */
const toDescribed = (): readonly Described[] => (may('viewer') ? [V1, ADMIN] : [V1])

const useDescription = ({ name, url }: Described) =>
  useLoaded(`reference/${name}`, async () => {
    const document: ApiDocument = await ask(read(url))
    return { ...document, groups: toGroups(document) }
  })

export type Description = NonNullable<ReturnType<typeof useDescription>['data']>

async function read(url: string) {
  const response = await fetch(url)
  const said = await response.json().catch(() => null)
  const { ok, status } = response
  return { data: ok ? said : null, error: ok ? null : { value: said }, status }
}
