/** First-run checklist with three auto-completing steps. */
import type { ComponentChildren } from 'preact'
import { count } from '../../domain/text.ts'
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
      <Step isDone={ready.length > 0} title="Model">
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
          <p>
            {unready === null
              ? may('editor')
                ? 'No models yet'
                : 'No models yet. Ask an owner or editor to add one'
              : `No model is ready: ${unready}`}
            .
          </p>
        )}
        {ready.length > 0 && mayTry() && (
          <p>
            <a href={toHref('/playground')}>Open the playground</a>
          </p>
        )}
        {may('owner') && ready.every((slug) => slug.startsWith('tollgate/demo')) && (
          <details open={ready.length === 0}>
            <summary>Add a provider</summary>
            <p>
              <code>tollgate/demo</code> echoes your prompt for free. For other models,{' '}
              <a href={toHref('/upstreams/new')}>add an upstream</a> and enter its key, or put a provider in{' '}
              <code>catalog.yaml</code> in the data folder and start the server with the key in the environment:
            </p>
            <Code label="Catalog with a provider" text={PROVIDER} />
          </details>
        )}
      </Step>
      <Step isDone={keys > 0} title="API key">
        {keys > 0 ? (
          <p>
            {count(keys, 'active key')}. <a href={toHref('/keys')}>View keys</a>
          </p>
        ) : (
          <p>Clients need a key. It is shown once, with snippets for curl, TypeScript, and Python.</p>
        )}
        {mayChangeKeys() && (
          <p>
            <ButtonLink kind={keys > 0 ? 'plain' : 'main'} icon="plus" href={toHref('/keys/new')} data-new>
              New key
            </ButtonLink>
          </p>
        )}
      </Step>
      <Step isDone={first !== null} title="First request">
        {first === null ? (
          <p>Your first request appears here automatically.</p>
        ) : (
          <p>
            Key <a href={toHref(`/keys?key=${first.id}`)}>{first.name}</a> called <code>{first.model}</code>,{' '}
            <When ms={first.atMs} />.
          </p>
        )}
        {first !== null && may('viewer') && (
          <p>
            <ButtonLink icon="overview" href={toHref('/?range=today')}>
              View its cost
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
