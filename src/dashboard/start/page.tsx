/** First-run checklist with three auto-completing steps. */
import type { ComponentChildren } from 'preact'
import { count } from '../../domain/text.ts'
import { address, query, toHref, toHrefWith } from '../address/address.ts'
import { api, ask } from '../api/client.ts'
import { useLoaded } from '../api/loaded.ts'
import { isMember, may, mayTry } from '../api/session.ts'
import { mayChangeKeys, useKeys, useModels } from '../keys/data.ts'
import { Attention, useAttentionRead } from '../overview/attention.tsx'
import { Page } from '../shell/page.tsx'
import { ButtonLink, Icon } from '../ui/controls.tsx'
import { When } from '../ui/figure.tsx'
import { RowsRoom, Unread } from '../ui/notice.tsx'
import { toSteps } from './steps.ts'

const LOOK_MS = 3_000

export function StartPage() {
  const keys = useKeys(LOOK_MS)
  const models = useModels(LOOK_MS)
  const upstreams = useSeenUpstreams()
  const withDemo = query.value.get('demo') === 'yes'
  const isRead =
    useAttentionRead() && keys.data !== null && models.data !== null && (upstreams.data !== null || isMember())
  const problem = keys.problem ?? models.problem ?? upstreams.problem
  const retry = () => void Promise.all([keys.reload(), models.reload(), upstreams.reload()])
  return (
    <Page title="Start">
      {(isRead || problem !== null) && <Attention />}
      <Unread of={isRead || null} problem={problem} retry={retry}>
        <RowsRoom />
      </Unread>
      {isRead && (
        <Steps
          {...toSteps(keys.data ?? [], models.data ?? [], isMember() ? null : upstreams.data, withDemo)}
          withDemo={withDemo}
        />
      )}
    </Page>
  )
}

/** Members see only models. */
const useSeenUpstreams = () =>
  useLoaded(
    isMember() ? 'no upstreams' : 'upstreams',
    async () => (isMember() ? [] : (await ask(api.upstreams.get())).upstreams),
    { everyMs: LOOK_MS },
  )

type StepsProps = ReturnType<typeof toSteps> & { withDemo: boolean }

function Steps({ ready, hasProvider, hasDemo, unready, keys, first, withDemo }: StepsProps) {
  return (
    <ol class="steps">
      <Step isDone={hasProvider} title={isMember() ? 'Model' : 'Provider'}>
        {withDemo && (
          <p>
            You are using the demo, which echoes your prompt. <a href={toHref(address.value.path)}>Stop using it</a>
          </p>
        )}
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
            {unready !== null
              ? `No model is ready: ${unready}.`
              : may('owner')
                ? 'A provider or model server that answers requests, with its key and models.'
                : 'No models yet. Ask an owner to add a provider.'}
          </p>
        )}
        {may('owner') && (
          <p>
            <ButtonLink kind={hasProvider ? 'plain' : 'main'} icon="plus" href={toHref('/upstreams/new')}>
              Add provider
            </ButtonLink>
          </p>
        )}
        {!hasProvider && hasDemo && (
          <p>
            No account yet? <a href={toHrefWith({ demo: 'yes' })}>Use the demo</a>: <code>tollgate/demo</code> echoes
            your prompt and is free.
          </p>
        )}
        {ready.length > 0 && mayTry() && (
          <p>
            <a href={toHref('/playground')}>Open the playground</a>
          </p>
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
