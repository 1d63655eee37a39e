/** The first run: three steps, each ticked by itself once it has happened. */
import type { ComponentChildren } from 'preact'
import { toHref } from '../address/address.ts'
import { may, mayTry } from '../api/session.ts'
import { mayChangeKeys, useKeys, useModels } from '../keys/data.ts'
import { Page } from '../shell/page.tsx'
import { ButtonLink, Code, Icon } from '../ui/controls.tsx'
import { When } from '../ui/figure.tsx'
import { RowsRoom, Unread } from '../ui/notice.tsx'
import { toSteps } from './steps.ts'

const LOOK_MS = 3_000

export function StartPage() {
  const keys = useKeys(LOOK_MS)
  const models = useModels()
  const problem = keys.problem ?? models.problem
  const retry = () => void Promise.all([keys.reload(), models.reload()])
  return (
    <Page title="Start">
      <Unread of={keys.data && models.data} problem={problem} retry={retry}>
        <RowsRoom />
      </Unread>
      {keys.data && models.data && <Steps {...toSteps(keys.data, models.data)} />}
    </Page>
  )
}

const PROVIDER = `version: 1
upstreams:
  demo: { dialect: demo, local: true }
  openai: { preset: openai, api_key: \${OPENAI_API_KEY} }
models:
  tollgate/demo: { name: Demo, routes: [{ upstream: demo, model: demo }] }
  openai/*: { routes: [{ upstream: openai, model: "*" }] }`

function Steps({ ready, unready, keys, first }: ReturnType<typeof toSteps>) {
  return (
    <ol class="steps">
      <Step isDone={ready.length > 0} title="A model that answers">
        {ready.length > 0 ? (
          <p>
            Ready:{' '}
            {ready.slice(0, 3).map((slug, index) => (
              <>
                {index > 0 && ', '}
                <code>{slug}</code>
              </>
            ))}
            {ready.length > 3 && ` and ${ready.length - 3} more`}.
          </p>
        ) : (
          <p>No model is ready{unready === null ? ': there is none yet' : `: ${unready}`}.</p>
        )}
        {ready.length > 0 && mayTry() && (
          <p>
            <a href={toHref('/playground')}>Try {ready.length === 1 ? 'it' : 'one'} in the playground</a>
          </p>
        )}
        {may('owner') && ready.every((slug) => slug.startsWith('tollgate/demo')) && (
          <details open={ready.length === 0}>
            <summary>Add a provider</summary>
            <p>
              <code>tollgate/demo</code> says back what it was told, for nothing. For others,{' '}
              <a href={toHref('/upstreams/new')}>add an upstream</a> here, with its key typed in, or name a provider in{' '}
              <code>catalog.yaml</code> of the data folder and start the server with its key in the environment:
            </p>
            <Code label="A catalogue with a provider" text={PROVIDER} />
          </details>
        )}
      </Step>
      <Step isDone={keys > 0} title="A key">
        {keys > 0 ? (
          <p>
            There {keys === 1 ? 'is one' : `are ${keys}`}.{' '}
            <a href={toHref('/keys')}>Look at {keys === 1 ? 'it' : 'them'}</a>
          </p>
        ) : (
          <p>Whoever asks a model brings one. It is shown once, with what to paste into curl, TypeScript or Python.</p>
        )}
        {mayChangeKeys() && (
          <p>
            <ButtonLink kind={keys > 0 ? 'plain' : 'main'} icon="plus" href={toHref('/keys/new')} data-new>
              New key
            </ButtonLink>
          </p>
        )}
      </Step>
      <Step isDone={first !== null} title="The first request">
        {first === null ? (
          <p>It shows up here by itself.</p>
        ) : (
          <p>
            <a href={toHref(`/keys?key=${first.id}`)}>{first.name}</a> asked <code>{first.model}</code>,{' '}
            <When ms={first.atMs} />.
          </p>
        )}
        {first !== null && may('viewer') && (
          <p>
            <ButtonLink icon="overview" href={toHref('/?range=today')}>
              See what it cost
            </ButtonLink>
          </p>
        )}
      </Step>
    </ol>
  )
}

const Step = ({ isDone, title, children }: { isDone: boolean; title: string; children: ComponentChildren }) => (
  <li class="step" data-done={isDone}>
    <span class="step-mark">{isDone && <Icon name="check" />}</span>
    <div>
      <h2>
        {title}
        <span class="unseen">{isDone ? ': done' : ': to do'}</span>
      </h2>
      {children}
    </div>
  </li>
)
