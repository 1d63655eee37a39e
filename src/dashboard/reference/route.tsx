/** One route: what it does, who may ask for it, what it takes and what it answers. */
import { useEffect, useRef } from 'preact/hooks'
import { toHrefWith } from '../address/address.ts'
import { Code } from '../ui/copy.tsx'
import type { Description } from './data.ts'
import { toCurl } from './example.ts'
import { Fields, Inside } from './fields.tsx'
import { Inline, Prose } from './prose.tsx'
import type { Route, RouteAnswer } from './routes.ts'
import type { Schemas } from './schema.ts'

interface RouteProps {
  of: Route
  description: Description
  /** Whether somebody has just chosen it: they go on reading there. */
  isChosen: boolean
}

export function RoutePart({ of: route, description, isChosen }: RouteProps) {
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
